//! Where commands run: in the sandbox of this machine, or in a container of an image.

use std::path::Path;
use std::str::FromStr;

use byleave_sandbox::launch::{LaunchError, OciEngine, is_image_name};

/// The place where commands run, as the flag `--on` and the setting `run_on` name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunOn {
    /// The sandbox of this machine.
    Native,
    /// A container of this image.
    Oci(String),
}

impl FromStr for RunOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("oci:") {
            None if text == "native" => Ok(Self::Native),
            None => Err("write `native`, or `oci:` and the name of an image, as in `oci:debian:12`".into()),
            Some(image) if is_image_name(image) => Ok(Self::Oci(image.to_owned())),
            Some(image) => Err(format!(
                "`{}` is not the name of an image; it has only letters, digits and `._-/:@`, and begins with a letter or digit",
                image.escape_debug()
            )),
        }
    }
}

impl RunOn {
    /// Checks whether commands run in the sandbox of this machine.
    pub(crate) fn is_native(&self) -> bool {
        matches!(self, Self::Native)
    }

    /// Finds the container engine, if commands run in a container. It is never one in the workspace.
    pub(crate) fn engine(&self, workspace: &Path) -> Result<Option<OciEngine>, LaunchError> {
        let Self::Oci(image) = self else { return Ok(None) };
        let search = std::env::var_os("PATH").unwrap_or_default();
        OciEngine::find(image, &search, workspace).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E7
    #[test]
    fn a_place_is_native_or_an_image_and_never_an_option_of_the_engine() {
        assert_eq!("native".parse(), Ok(RunOn::Native));
        assert_eq!("oci:debian:12".parse(), Ok(RunOn::Oci("debian:12".into())));
        for wrong in ["", "oci", "oci:", "debian:12", "oci:--privileged", "oci:a b", "docker:x"] {
            assert!(wrong.parse::<RunOn>().is_err(), "{wrong}");
        }
    }
}
