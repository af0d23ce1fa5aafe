//! Health: `/live`, `/ready`, `/startup`, `/health`, and gRPC's.
