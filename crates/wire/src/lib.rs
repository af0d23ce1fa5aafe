//! Leasehold's wire formats: protobufs, vendored and its own, the code generated from them, and checked conversions to
//! the types that the gate and the lease protocol take.
//!
//! Nothing here decides: a conversion either understands a message or says which field it could not use.

pub mod peer;
pub mod rls;

/// Generated code, laid out as the packages are. The comments in it are Envoy's.
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod envoy {
    /// `envoy.config`.
    pub mod config {
        /// `envoy.config.core`.
        pub mod core {
            /// `envoy.config.core.v3`.
            pub mod v3 {
                tonic::include_proto!("envoy.config.core.v3");
            }
        }
    }
    /// `envoy.extensions`.
    pub mod extensions {
        /// `envoy.extensions.common`.
        pub mod common {
            /// `envoy.extensions.common.ratelimit`.
            pub mod ratelimit {
                /// `envoy.extensions.common.ratelimit.v3`.
                pub mod v3 {
                    tonic::include_proto!("envoy.extensions.common.ratelimit.v3");
                }
            }
        }
    }
    /// `envoy.service`.
    pub mod service {
        /// `envoy.service.ratelimit`.
        pub mod ratelimit {
            /// `envoy.service.ratelimit.v3`.
            pub mod v3 {
                tonic::include_proto!("envoy.service.ratelimit.v3");
            }
        }
    }
    /// `envoy.type`.
    pub mod r#type {
        /// `envoy.type.v3`.
        pub mod v3 {
            tonic::include_proto!("envoy.r#type.v3");
        }
    }
}

/// Generated code that Envoy's refers to.
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod xds {
    /// `xds.core`.
    pub mod core {
        /// `xds.core.v3`.
        pub mod v3 {
            tonic::include_proto!("xds.core.v3");
        }
    }
}

/// Generated code of our own messages.
#[allow(missing_docs, clippy::all, rustdoc::all)]
pub mod leasehold {
    /// `leasehold.peer`.
    pub mod peer {
        /// `leasehold.peer.v1`.
        pub mod v1 {
            tonic::include_proto!("leasehold.peer.v1");
        }
    }
}

/// The `FileDescriptorSet` of all public services here and what they import, encoded, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
