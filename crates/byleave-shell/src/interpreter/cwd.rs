//! Tracks the current directory through `cd`, `pushd` and `popd`.

use super::ScriptReader;
use super::operand::ExpandedOperand;
use super::state::{ShellDirectory, ShellState, VariableValue};
use super::statements::ExitStates;

impl ScriptReader<'_> {
    pub(super) fn change_directory(
        &mut self,
        name: &str,
        operands: &[ExpandedOperand<'_>],
        unsure: bool,
        state: ShellState,
    ) -> ExitStates {
        if name == "dirs" {
            return ExitStates::unconditional(state);
        }
        let mut ok = state.clone();
        let mut may_fail = unsure;
        match name {
            "popd" => {
                let top = if operands.is_empty() { ok.stack.as_mut().and_then(Vec::pop) } else { None };
                match top {
                    Some(top) => ok.working_dir = top,
                    None => {
                        ok.working_dir =
                            unknown_directory("`popd` goes to a directory from the directory stack");
                        ok.stack = None;
                    }
                }
            }
            _ => {
                let (place, sure) = self.destination(operands, &state);
                may_fail |= !sure;
                if name == "pushd" {
                    match &mut ok.stack {
                        Some(stack) if stack.len() < 64 && !operands.is_empty() => {
                            stack.push(state.working_dir.clone())
                        }
                        stack => *stack = None,
                    }
                    ok.working_dir = if operands.is_empty() {
                        unknown_directory("`pushd` goes to a directory from the directory stack")
                    } else {
                        place
                    };
                } else {
                    ok.working_dir = place;
                }
            }
        }
        if unsure {
            ok.working_dir = match ok.working_dir {
                ShellDirectory::At { .. } if name != "popd" => ok.working_dir,
                _ => unknown_directory(
                    "the directory depends on whether an earlier change of directory succeeds",
                ),
            };
        }
        for name in ["PWD", "OLDPWD"] {
            if ok.is_set(name) {
                ok.set(name, VariableValue::Unknown);
            }
        }
        ExitStates { on_success: ok, on_failure: state, may_fail }
    }

    /// Returns the destination of `cd`, and whether `cd` certainly succeeds.
    fn destination(&self, operands: &[ExpandedOperand<'_>], state: &ShellState) -> (ShellDirectory, bool) {
        let mut words = Vec::new();
        for operand in operands {
            match operand.field.word.as_text() {
                Some(text) => words.push(text),
                None => return (unknown_directory("the target directory is not known"), false),
            }
        }
        let target = match words.as_slice() {
            [] => state.home(self.env),
            ["--" | "-L", target] | [target] => Some((*target).to_owned()),
            _ => None,
        };
        let Some(target) = target else {
            return (unknown_directory("the target directory is not known"), false);
        };
        if target.is_empty() || target.starts_with(['-', '+']) {
            return (unknown_directory("the target directory depends on earlier ones"), false);
        }
        let relative = !target.starts_with('/');
        let first = target.split('/').next().unwrap_or_default();
        if relative && first != "." && first != ".." {
            let searched = state.is_set("CDPATH")
                || !matches!(state.value("CDPATH", self.env), VariableValue::Unknown)
                || !state.splits_as_usual();
            if searched {
                return (unknown_directory("`CDPATH` may change the target directory"), false);
            }
        }
        let base = match &state.working_dir {
            ShellDirectory::At { logical, .. } => logical.as_str(),
            ShellDirectory::Unknown(_) if !relative => "/",
            ShellDirectory::Unknown(why) => return (ShellDirectory::Unknown(why.clone()), false),
        };
        // The shell removes `..` from the text of the path, regardless of symlinks.
        let mut parts: Vec<&str> =
            if relative { base.split('/').filter(|part| !part.is_empty()).collect() } else { Vec::new() };
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    let so_far = format!("/{}", parts.join("/"));
                    if !self.env.is_directory(&so_far) {
                        return (unknown_directory("the target directory does not exist yet"), false);
                    }
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        let logical = format!("/{}", parts.join("/"));
        if !state.are_files_unchanged() || !self.env.is_directory(&logical) {
            return (unknown_directory("the target directory may change before the command runs"), false);
        }
        match self.env.resolve("/", &logical) {
            Some(physical) => (ShellDirectory::At { logical, physical }, true),
            None => (unknown_directory("the target directory is not known"), false),
        }
    }
}

/// Returns a directory that is not certain any more.
fn unknown_directory(why: &str) -> ShellDirectory {
    ShellDirectory::Unknown(why.to_owned())
}
