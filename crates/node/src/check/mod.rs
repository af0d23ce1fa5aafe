//! `/v1/check`: what proxies and programs ask over HTTP.
