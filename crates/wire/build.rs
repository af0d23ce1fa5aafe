//! Compiles the protobufs without protoc, and keeps the descriptors of the public ones for reflection.

use std::path::PathBuf;

use prost::Message as _;
use prost_types::FileDescriptorSet;
use prost_types::field_descriptor_proto::Type;

const ROOT: &str = "proto";
const RLS: &str = "envoy/service/ratelimit/v3/rls.proto";
/// What only nodes speak: not in the reflection.
const PEER: &str = "leasehold/peer/v1/peer.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let mut files = protox::compile([RLS], [ROOT])?;

    let out: PathBuf = std::env::var_os("OUT_DIR")
        .ok_or("cargo sets OUT_DIR")?
        .into();
    let mut for_reflection = files.clone();
    for file in &mut for_reflection.file {
        file.source_code_info = None;
    }
    std::fs::write(out.join("descriptors.bin"), for_reflection.encode_to_vec())?;

    take_entry_values_as_bytes(&mut files)?;
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(files)?;
    tonic_prost_build::configure()
        .build_transport(false)
        // An envelope is taken out of what was read, not copied.
        .bytes(".leasehold.peer.v1.Frame")
        .compile_fds(protox::compile([PEER], [ROOT])?)?;
    Ok(())
}

/// Envoy copies header values into descriptors whatever their bytes are, though the field is a string. A strict reader
/// would refuse the whole request for one byte that a client chose, and Envoy admits on an error. On the wire the two
/// types are the same.
fn take_entry_values_as_bytes(files: &mut FileDescriptorSet) -> Result<(), String> {
    let field = files
        .file
        .iter_mut()
        .filter(|file| file.package() == "envoy.extensions.common.ratelimit.v3")
        .flat_map(|file| &mut file.message_type)
        .filter(|message| message.name() == "RateLimitDescriptor")
        .flat_map(|message| &mut message.nested_type)
        .filter(|message| message.name() == "Entry")
        .flat_map(|message| &mut message.field)
        .find(|field| field.name() == "value")
        .ok_or("the vendored protobufs have no RateLimitDescriptor.Entry.value")?;
    field.set_type(Type::Bytes);
    Ok(())
}
