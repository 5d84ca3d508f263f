package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageIsForThisMachine(t *testing.T) {
	for address, ok := range map[string]bool{
		defaultPage: true, "": true, "-": true, "localhost:80": true, "[::1]:0": true,
		"0.0.0.0:9474": false, ":9474": false, "10.0.0.1:80": false, "example.com:80": false, "127.0.0.1": false, "localhost.example.com:80": false,
	} {
		s := DefaultSettings()
		s.Page.Address = address
		require.Equal(t, ok, s.Validate() == nil, address)
	}
	s := DefaultSettings()
	s.Page = PageSettings{Address: "0.0.0.0:9474", Hosts: []string{"kv.example.com"}}
	require.NoError(t, s.Validate())
}
