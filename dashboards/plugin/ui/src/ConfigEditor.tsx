import React from 'react';
import { DataSourcePluginOptionsEditorProps } from '@grafana/data';
import { Alert, Button, InlineField, Input, RadioButtonGroup, Switch, TextArea } from '@grafana/ui';
import { Options, Secrets } from './types';

type Props = DataSourcePluginOptionsEditorProps<Options, Secrets>;

const protocols = [
  { value: 'http', label: 'HTTP' },
  { value: 'native', label: 'Native' },
];

const ports: { [key: string]: number } = { httpfalse: 8123, httptrue: 8443, nativefalse: 9000, nativetrue: 9440 };

/** The page of the data source. Secrets are written, and never shown again. */
export function ConfigEditor(props: Props) {
  const { options, onOptionsChange } = props;
  const json = options.jsonData || {};
  const set = (change: Partial<Options>) => onOptionsChange({ ...options, jsonData: { ...json, ...change } });
  const text = (key: keyof Options) => ({
    id: 'config-' + key,
    value: (json[key] as string) || '',
    onChange: (e: any) => set({ [key]: e.target.value || undefined }),
  });
  const whole = (key: keyof Options) => ({
    id: 'config-' + key,
    type: 'number',
    value: json[key] === undefined ? '' : (json[key] as number),
    onChange: (e: any) => set({ [key]: e.target.value === '' ? undefined : Number(e.target.value) }),
  });
  return (
    <div>
      <h3 className="page-heading">ClickHouse</h3>
      <Row label="Protocol" tooltip="HTTP reaches the database that kvwhatif up starts too; it listens on 127.0.0.1 only">
        <RadioButtonGroup options={protocols} value={json.protocol || 'http'} onChange={(protocol: string) => set({ protocol })} />
      </Row>
      <Row label="Host" tooltip="Name or address, without protocol and port">
        <Input width={40} placeholder="127.0.0.1" {...text('host')} />
      </Row>
      <Row label="Port" tooltip="Empty: the usual one of the protocol">
        <Input width={40} placeholder={String(ports[(json.protocol || 'http') + String(!!json.secure)])} {...whole('port')} />
      </Row>
      <Row label="Database">
        <Input width={40} placeholder="kvwhatif" {...text('database')} />
      </Row>
      <Row label="User" tooltip="One that may only read: readonly = 2. The embedded database has reader, whose password kvwhatif keeps beside its data.">
        <Input width={40} placeholder="reader" {...text('username')} />
      </Row>
      <Secret name="password" label="Password" {...props} />
      <h3 className="page-heading">TLS</h3>
      <Row label="TLS">
        <Switch id="config-secure" value={!!json.secure} onChange={(e: any) => set({ secure: e.currentTarget.checked })} />
      </Row>
      {json.secure && <TLS {...props} />}
      <h3 className="page-heading">Limits of a query</h3>
      <Row label="Rows" tooltip="1 to 1,000,000">
        <Input width={40} placeholder="100000" {...whole('rowLimit')} />
      </Row>
      <Row label="Seconds" tooltip="1 to 600">
        <Input width={40} placeholder="30" {...whole('timeout')} />
      </Row>
    </div>
  );
}

function TLS(props: Props) {
  const { options, onOptionsChange } = props;
  const json = options.jsonData || {};
  const set = (change: Partial<Options>) => onOptionsChange({ ...options, jsonData: { ...json, ...change } });
  return (
    <div>
      <Row label="Server name" tooltip="The name in the certificate, where it is not the host">
        <Input id="config-serverName" width={40} value={json.serverName || ''} onChange={(e: any) => set({ serverName: e.target.value || undefined })} />
      </Row>
      <Row label="Any certificate">
        <Switch id="config-tlsSkipVerify" value={!!json.tlsSkipVerify} onChange={(e: any) => set({ tlsSkipVerify: e.currentTarget.checked })} />
      </Row>
      {json.tlsSkipVerify && (
        <Alert title="Any certificate is taken" severity="warning">
          Whoever answers at this address is sent the password.
        </Alert>
      )}
      <Secret name="tlsCACert" label="CA certificate" area {...props} />
      <Secret name="tlsClientCert" label="Client certificate" area {...props} />
      <Secret name="tlsClientKey" label="Client key" area {...props} />
    </div>
  );
}

function Row({ label, tooltip, children }: { label: string; tooltip?: string; children: React.ReactNode }) {
  return (
    <div className="gf-form">
      <InlineField label={label} labelWidth={26} tooltip={tooltip}>
        {children}
      </InlineField>
    </div>
  );
}

interface SecretProps extends Props {
  name: keyof Secrets;
  label: string;
  area?: boolean;
}

/** A secret: a field to write it, or the word that it is set and a button to take it back. */
function Secret({ name, label, area, options, onOptionsChange }: SecretProps) {
  const isSet = !!(options.secureJsonFields && options.secureJsonFields[name]);
  const reset = () =>
    onOptionsChange({
      ...options,
      secureJsonFields: { ...options.secureJsonFields, [name]: false },
      secureJsonData: { ...options.secureJsonData, [name]: '' },
    });
  const field = {
    id: 'config-' + name,
    value: (options.secureJsonData && options.secureJsonData[name]) || '',
    onChange: (e: any) => onOptionsChange({ ...options, secureJsonData: { ...options.secureJsonData, [name]: e.target.value } }),
  };
  if (isSet) {
    return (
      <div className="gf-form">
        <InlineField label={label} labelWidth={26}>
          <Input id={'config-' + name} width={40} disabled value="is set" />
        </InlineField>
        <Button variant="secondary" type="button" id={'reset-' + name} onClick={reset}>
          Reset
        </Button>
      </div>
    );
  }
  return (
    <Row label={label}>
      {area ? <TextArea cols={60} rows={4} placeholder="-----BEGIN" {...field} /> : <Input type="password" width={40} autoComplete="new-password" {...field} />}
    </Row>
  );
}
