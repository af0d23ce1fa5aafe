//! Envoy's rate limit service, v3.
