//! Compiles the vendored protobufs without protoc, and keeps their descriptors for reflection.

use std::path::PathBuf;

use prost::Message as _;

const ROOT: &str = "proto";
const RLS: &str = "envoy/service/ratelimit/v3/rls.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let files = protox::compile([RLS], [ROOT])?;

    let out: PathBuf = std::env::var_os("OUT_DIR")
        .ok_or("cargo sets OUT_DIR")?
        .into();
    let mut for_reflection = files.clone();
    for file in &mut for_reflection.file {
        file.source_code_info = None;
    }
    std::fs::write(out.join("descriptors.bin"), for_reflection.encode_to_vec())?;

    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}
