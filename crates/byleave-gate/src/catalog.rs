//! The catalog of tools by name and alias (G1).
//!
//! Reads never wait, neither for other readers nor for a writer (G2). Readers see an immutable snapshot, and a writer
//! replaces it with a new one. The manifest of a tool is read once, when it is registered. Later results of its `manifest`
//! are ignored.

mod check;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use byleave_core::digest::Digest;
use byleave_core::manifest::Manifest;
use byleave_core::refusal::{Code, Refusal};
use parking_lot::Mutex;
use serde_json::Value;

use crate::schema::{SchemaError, Validator};
use crate::tool::{Tool, ToolContext};
use crate::tool_ranking::{ToolDocument, rank};

pub use check::ManifestError;

/// How similar two names must be for one to be suggested for the other, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.85;

/// A catalog of tools. Cloning is cheap: clones share the same tools.
#[derive(Clone, Default)]
pub struct Catalog {
    shared: Arc<CatalogInner>,
}

#[derive(Default)]
struct CatalogInner {
    snapshot: ArcSwap<CatalogSnapshot>,
    /// Held by the writer of the next snapshot. Readers never take it.
    write_lock: Mutex<()>,
}

/// The immutable set of tools at one time.
#[derive(Clone, Default)]
pub struct CatalogSnapshot {
    tools: BTreeMap<Arc<str>, Arc<CatalogEntry>>,
    aliases: BTreeMap<Arc<str>, Arc<CatalogEntry>>,
    /// The names of all tools that were ever registered.
    known_names: BTreeSet<Arc<str>>,
    /// The reasons why tools are not in the catalog, by name.
    disabled: BTreeMap<Arc<str>, Arc<str>>,
}

/// One registered tool, with data computed at registration.
pub struct CatalogEntry {
    name: Arc<str>,
    tool: Arc<dyn Tool>,
    manifest: Manifest,
    digest: Digest,
    validator: OnceLock<Validator>,
    document: OnceLock<ToolDocument>,
}

/// A handle that does not keep the catalog alive, for tools that are in it.
#[derive(Clone)]
pub struct WeakCatalog {
    shared: Weak<CatalogInner>,
}

/// The reason why a tool was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Its manifest is not valid.
    #[error("cannot register tool `{}`: {error}", tool.escape_debug())]
    InvalidManifest {
        /// The tool.
        tool: String,
        /// The error in the manifest.
        error: ManifestError,
    },
    /// Another tool already has the name.
    #[error("cannot register tool `{tool}`: the name `{name}` already belongs to tool `{owner}`")]
    NameTaken {
        /// The tool.
        tool: String,
        /// The name or alias.
        name: String,
        /// The tool that has it.
        owner: String,
    },
}

/// The error for an unknown name or alias.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", describe_unknown(name, nearest.as_deref(), disabled.as_deref()))]
pub struct UnknownToolError {
    /// The name, truncated if it is very long.
    pub name: String,
    /// The most similar name, if any is similar enough.
    pub nearest: Option<String>,
    /// The reason why the tool is disabled, if it is.
    pub disabled: Option<String>,
}

fn describe_unknown(name: &str, nearest: Option<&str>, disabled: Option<&str>) -> String {
    let name = name.escape_debug();
    match (disabled, nearest) {
        (Some(reason), _) => format!("the tool `{name}` is disabled: {reason}"),
        (None, Some(nearest)) => format!("there is no tool `{name}`; did you mean `{nearest}`?"),
        (None, None) => format!("there is no tool `{name}`"),
    }
}

impl From<UnknownToolError> for Refusal {
    fn from(unknown: UnknownToolError) -> Self {
        Self::new(Code::ToolUnknown, unknown.to_string())
    }
}

impl Catalog {
    /// Creates an empty catalog.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a tool. Fails if its name or one of its aliases is taken.
    pub fn register(&self, tool: impl Tool) -> Result<Arc<CatalogEntry>, RegisterError> {
        self.add(CatalogEntry::new(Arc::new(tool))?)
    }

    /// Registers a tool whose schema is part of this program, such as one that was generated from a Rust type. The schema is compiled for the
    /// first call, because a program that makes one call should not wait for the schemas of all other tools. If it cannot be compiled, no
    /// arguments are valid.
    pub fn register_generated(&self, tool: impl Tool) -> Result<Arc<CatalogEntry>, RegisterError> {
        self.add(CatalogEntry::with_validator(Arc::new(tool), |_| Ok(OnceLock::new()))?)
    }

    fn add(&self, entry: Arc<CatalogEntry>) -> Result<Arc<CatalogEntry>, RegisterError> {
        self.update_snapshot(|next| {
            next.add(Arc::clone(&entry))?;
            next.check_wanted(&entry)
        })?;
        Ok(entry)
    }

    /// Registers several tools atomically: all of them or none. They may want data of each other in any order.
    pub fn register_all(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<(), RegisterError> {
        let entries = tools.into_iter().map(CatalogEntry::new).collect::<Result<Vec<_>, _>>()?;
        self.update_snapshot(|next| {
            entries.iter().try_for_each(|entry| next.add(Arc::clone(entry)))?;
            entries.iter().try_for_each(|entry| next.check_wanted(entry))
        })
    }

    /// Registers a tool in place of the one with the same name, and returns the old one.
    ///
    /// A name or alias of any other tool is still an error.
    pub fn replace(&self, tool: impl Tool) -> Result<Option<Arc<CatalogEntry>>, RegisterError> {
        self.put(&CatalogEntry::new(Arc::new(tool))?)
    }

    /// Registers a tool in place of the one with the same name, as [`register_generated`](Self::register_generated) does.
    pub fn replace_generated(&self, tool: impl Tool) -> Result<Option<Arc<CatalogEntry>>, RegisterError> {
        self.put(&CatalogEntry::with_validator(Arc::new(tool), |_| Ok(OnceLock::new()))?)
    }

    fn put(&self, entry: &Arc<CatalogEntry>) -> Result<Option<Arc<CatalogEntry>>, RegisterError> {
        self.update_snapshot(|next| {
            let old = next.remove(&entry.name);
            next.add(Arc::clone(entry))?;
            next.check_wanted(entry)?;
            Ok(old)
        })
    }

    /// Sets the reason why a tool is not registered. Whoever calls it reads the reason, and how to enable it, instead of a similar name.
    pub fn set_disabled(&self, name: &str, reason: &str) {
        let writing = self.shared.write_lock.lock();
        let mut next = CatalogSnapshot::clone(&self.shared.snapshot.load());
        next.disabled.insert(name.into(), reason.into());
        let old = self.shared.snapshot.swap(Arc::new(next));
        drop(writing);
        drop(old);
    }

    /// Removes a tool by its own name.
    pub fn unregister(&self, name: &str) -> Result<Arc<CatalogEntry>, UnknownToolError> {
        self.update_snapshot(|next| next.remove(name).ok_or_else(|| next.unknown(name)))
    }

    /// Removes all tools.
    pub fn clear(&self) {
        let writing = self.shared.write_lock.lock();
        let old = self.shared.snapshot.swap(Arc::default());
        drop(writing);
        drop(old);
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<CatalogSnapshot> {
        self.shared.snapshot.load_full()
    }

    /// Returns the tool with this name or alias.
    pub fn get(&self, name: &str) -> Result<Arc<CatalogEntry>, UnknownToolError> {
        self.shared.snapshot.load().get(name)
    }

    /// Checks whether a tool has this name or alias.
    pub fn contains(&self, name: &str) -> bool {
        self.shared.snapshot.load().find(name).is_some()
    }

    /// Checks whether a tool with this name is or was registered.
    pub fn was_ever_registered(&self, name: &str) -> bool {
        self.shared.snapshot.load().known_names.contains(name)
    }

    /// Returns the number of tools.
    pub fn count(&self) -> usize {
        self.shared.snapshot.load().tools.len()
    }

    /// Returns all tools, sorted by name.
    pub fn list(&self) -> Vec<Arc<CatalogEntry>> {
        self.shared.snapshot.load().list()
    }

    /// Returns the tools with these names or aliases, sorted by name, each once.
    pub fn filter<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Vec<Arc<CatalogEntry>>, UnknownToolError> {
        self.shared.snapshot.load().filter(names)
    }

    /// Returns the tools that match a query, best first (G3).
    pub fn search(&self, query: &str, limit: usize) -> Vec<Arc<CatalogEntry>> {
        self.shared.snapshot.load().search(query, limit)
    }

    /// Returns a handle that does not keep the catalog alive.
    pub fn downgrade(&self) -> WeakCatalog {
        WeakCatalog { shared: Arc::downgrade(&self.shared) }
    }

    /// Makes the next snapshot from the current one. After an error the current one remains.
    fn update_snapshot<R, E>(&self, edit: impl FnOnce(&mut CatalogSnapshot) -> Result<R, E>) -> Result<R, E> {
        // The lock guards no data, so a panic of a writer leaves nothing in an invalid state.
        let writing = self.shared.write_lock.lock();
        let mut next = CatalogSnapshot::clone(&self.shared.snapshot.load());
        let made = edit(&mut next)?;
        let old = self.shared.snapshot.swap(Arc::new(next));
        // Dropping the last reference to a tool runs foreign code, which must not happen while the lock is held.
        drop(writing);
        drop(old);
        Ok(made)
    }
}

impl WeakCatalog {
    /// Returns the catalog, if it still exists.
    pub fn upgrade(&self) -> Option<Catalog> {
        self.shared.upgrade().map(|shared| Catalog { shared })
    }
}

impl CatalogSnapshot {
    /// Returns the tool with this name or alias.
    pub fn get(&self, name: &str) -> Result<Arc<CatalogEntry>, UnknownToolError> {
        self.find(name).cloned().ok_or_else(|| self.unknown(name))
    }

    /// Returns all tools, sorted by name.
    pub fn list(&self) -> Vec<Arc<CatalogEntry>> {
        self.tools.values().cloned().collect()
    }

    /// Returns the tools with these names or aliases, sorted by name, each once.
    pub fn filter<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Vec<Arc<CatalogEntry>>, UnknownToolError> {
        let mut chosen = BTreeMap::new();
        for name in names {
            let entry = self.get(name.as_ref())?;
            chosen.insert(Arc::clone(&entry.name), entry);
        }
        Ok(chosen.into_values().collect())
    }

    /// Returns the tools that match a query, best first, and by name if equal.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Arc<CatalogEntry>> {
        let entries: Vec<&Arc<CatalogEntry>> = self.tools.values().collect();
        let places = rank(entries.iter().map(|entry| entry.document()), query, limit);
        places.into_iter().filter_map(|place| entries.get(place).map(|&entry| Arc::clone(entry))).collect()
    }

    fn find(&self, name: &str) -> Option<&Arc<CatalogEntry>> {
        self.tools.get(name).or_else(|| self.aliases.get(name))
    }

    fn unknown(&self, name: &str) -> UnknownToolError {
        if let Some(reason) = self.disabled.get(name) {
            return UnknownToolError {
                name: name.to_owned(),
                nearest: None,
                disabled: Some(reason.to_string()),
            };
        }
        // The name comes from the model and may be anything. Only as many characters as a name may have are compared.
        let plain: String = normalize_name(name).take(check::NAME_CHARS_MAX).collect();
        let likeness = |known: &str| strsim::jaro_winkler(&plain, &normalize_name(known).collect::<String>());
        let known = self.tools.keys().chain(self.aliases.keys());
        let near =
            known.map(|known| (likeness(known), known)).filter(|(likeness, _)| *likeness >= MIN_SIMILARITY);
        // The first of equals by name, so that the same mistake always gets the same suggestion.
        let nearest = near.reduce(|best, next| match best.0.total_cmp(&next.0).then(next.1.cmp(best.1)) {
            std::cmp::Ordering::Less => next,
            _ => best,
        });
        UnknownToolError {
            name: name.chars().take(check::NAME_CHARS_MAX).collect(),
            nearest: nearest.map(|(_, name)| name.to_string()),
            disabled: None,
        }
    }

    fn add(&mut self, entry: Arc<CatalogEntry>) -> Result<(), RegisterError> {
        let names = || std::iter::once(&entry.manifest.name).chain(&entry.manifest.aliases);
        for name in names() {
            if let Some(owner) = self.find(name) {
                return Err(RegisterError::NameTaken {
                    tool: entry.name.to_string(),
                    name: name.clone(),
                    owner: owner.name.to_string(),
                });
            }
        }
        for alias in &entry.manifest.aliases {
            self.aliases.insert(alias.as_str().into(), Arc::clone(&entry));
        }
        self.known_names.insert(Arc::clone(&entry.name));
        self.tools.insert(Arc::clone(&entry.name), entry);
        Ok(())
    }

    /// Checks the names of the tools whose data a tool wants. A tool that was removed or is disabled returned data before, or can later.
    fn check_wanted(&self, entry: &CatalogEntry) -> Result<(), RegisterError> {
        let is_known = |name: &str| self.known_names.contains(name) || self.disabled.contains_key(name);
        let Some(name) = entry.manifest.wants_data.iter().find(|name| !is_known(name)) else { return Ok(()) };
        let nearest = match self.find(name) {
            // An alias: results are found by the tool's own name.
            Some(owner) => Some(owner.name.to_string()),
            None => self.unknown(name).nearest,
        };
        let name = name.chars().take(check::NAME_CHARS_MAX).collect();
        let error = ManifestError::UnknownWanted { name, nearest };
        Err(RegisterError::InvalidManifest { tool: entry.name.to_string(), error })
    }

    fn remove(&mut self, name: &str) -> Option<Arc<CatalogEntry>> {
        let entry = self.tools.remove(name)?;
        for alias in &entry.manifest.aliases {
            self.aliases.remove(alias.as_str());
        }
        Some(entry)
    }
}

impl CatalogEntry {
    fn new(tool: Arc<dyn Tool>) -> Result<Arc<Self>, RegisterError> {
        Self::with_validator(tool, |schema| Ok(OnceLock::from(Validator::new(schema)?)))
    }

    fn with_validator(
        tool: Arc<dyn Tool>,
        validator: impl FnOnce(&Value) -> Result<OnceLock<Validator>, SchemaError>,
    ) -> Result<Arc<Self>, RegisterError> {
        let manifest = tool.manifest().clone();
        let made = check::check(&manifest)
            .and_then(|()| validator(&manifest.input_schema).map_err(ManifestError::from));
        let validator = match made {
            Ok(validator) => validator,
            Err(why) => {
                let tool = manifest.name.chars().take(check::NAME_CHARS_MAX).collect();
                return Err(RegisterError::InvalidManifest { tool, error: why });
            }
        };
        Ok(Arc::new(Self {
            name: manifest.name.as_str().into(),
            digest: manifest.digest(),
            document: OnceLock::new(),
            validator,
            manifest,
            tool,
        }))
    }

    /// Returns the tool's own name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tool.
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    /// Returns the manifest as registered.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the digest of the manifest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the validator for its arguments.
    pub fn validator(&self) -> &Validator {
        self.validator.get_or_init(|| Validator::of_generated(&self.manifest.input_schema))
    }

    /// Returns the words by which the tool is found.
    fn document(&self) -> &ToolDocument {
        self.document.get_or_init(|| ToolDocument::from_manifest(&self.manifest))
    }

    /// Returns the description for the model, or the registered one if the tool panics.
    pub fn describe(&self, site: &ToolContext) -> Cow<'_, str> {
        catch_unwind(AssertUnwindSafe(|| self.tool.describe(site)))
            .unwrap_or(Cow::Borrowed(&self.manifest.description))
    }
}

impl fmt::Debug for CatalogEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("manifest", &self.manifest).field("digest", &self.digest).finish()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.snapshot().tools.keys()).finish()
    }
}

/// Normalizes a name: removes case and separators, which people confuse.
fn normalize_name(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
}
