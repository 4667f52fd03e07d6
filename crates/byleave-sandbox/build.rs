//! Builds the program of the first process inside (`src/init`), which the library carries within itself.
//!
//! By the compiler alone, without Cargo: it has no dependencies, not even libc, so that it needs nothing on the machine but what
//! linking any Rust program needs. Static and at a fixed address whatever the profile: its start is part of every command's.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), String> {
    let var = |name: &str| env::var(name).map_err(|_| format!("cargo did not set {name}"));
    println!("cargo::rerun-if-changed=build.rs");
    for source in ["src/init", "src/syscall", "src/syscall.rs", "src/plan_format.rs"] {
        println!("cargo::rerun-if-changed={source}");
    }
    if var("CARGO_CFG_TARGET_OS")? != "linux" {
        return Ok(());
    }
    let out = PathBuf::from(var("OUT_DIR")?).join("byleave-init");
    let mut rustc = Command::new(var("RUSTC")?);
    rustc.args([
        "src/init/main.rs",
        "--crate-name",
        "byleave_init",
        "--edition",
        "2024",
        "--crate-type",
        "bin",
    ]);
    rustc.arg("--target").arg(var("TARGET")?).arg("-o").arg(&out);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.args(["-Copt-level=2", "-Cpanic=abort", "-Cstrip=symbols", "-Crelocation-model=static"]);
    rustc.args(["-Ctarget-feature=+crt-static", "-Clink-arg=-nostartfiles", "-Clink-arg=-nodefaultlibs"]);
    rustc.args(["-Clink-arg=-static", "-Clink-arg=-no-pie"]);
    // It begins by itself: the start that comes with Rust for musl would be a second one.
    if var("CARGO_CFG_TARGET_ENV")? == "musl" {
        rustc.arg("-Clink-self-contained=no");
    }
    let done = rustc.status().map_err(|error| format!("cannot run the compiler: {error}"))?;
    if done.success() { Ok(()) } else { Err(format!("cannot build src/init/main.rs: {done}")) }
}
