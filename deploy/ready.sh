#!/bin/bash
# Succeeds while the stage on this host answers 200 at /readyz:
#   kvwhatif-ready [PORT]
# In bash alone, for the image has no HTTP client.
exec 3<>"/dev/tcp/127.0.0.1/${1:-9464}" || exit 1
printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
read -r -t 5 _ status _ <&3
[ "$status" = 200 ] || { echo "not ready: ${status:-no answer}" >&2; exit 1; }
