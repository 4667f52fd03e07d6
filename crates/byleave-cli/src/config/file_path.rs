//! Settings files that may exist.

use std::path::PathBuf;

use byleave_gate::core::policy::Layer;

/// A settings file that may exist.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    /// Its layer: organisation, user or project.
    pub(crate) layer: Layer,
    /// Its path.
    pub(crate) path: PathBuf,
}

impl ConfigFile {
    /// Checks whether it belongs to a project.
    pub(crate) const fn is_project(&self) -> bool {
        matches!(self.layer, Layer::Project)
    }
}
