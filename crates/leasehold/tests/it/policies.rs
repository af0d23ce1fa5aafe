//! The policies that tests run under. Windows are so long that none ends during a test.

/// So many a client on `/limited`, and 3 a key on `/keyed`.
pub fn per_client(units: usize) -> String {
    format!(
        "version: 1
client_address:
  trusted: [127.0.0.1/32]
rules:
  - name: limited
    when: {{path: /limited}}
    by: address
    limits: [{{rate: {units} per 30d, disclose: true}}]
  - name: keyed
    when: {{path: /keyed}}
    by: api_key
    limits: [{{rate: 3 per 30d, disclose: true}}]
"
    )
}

/// What the tests behind proxies need besides.
pub fn for_proxies() -> String {
    per_client(5)
        + "  - name: twenty
    when: {path: /twenty}
    by: address
    limits: [{rate: 20 per 30d, disclose: true}]
  - name: probe
    when: {path: /probe}
    by: everyone
    limits: [{rate: 1000000 per 30d, disclose: true}]
"
}
