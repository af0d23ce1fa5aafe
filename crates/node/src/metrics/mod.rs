//! Prometheus metrics with bounded series.
