//! Builtins that change the shell, or that evaluate or run their operands.

use super::ScriptReader;
use super::operand::{ExpandedOperand, plain_name};
use super::state::{ShellDirectory, ShellState, VariableValue};

impl ScriptReader<'_> {
    /// Applies the effect of a builtin on the shell. Returns `false` for everything that is not a builtin or that may touch files.
    pub(super) fn builtin(
        &mut self,
        name: &str,
        operands: &[ExpandedOperand<'_>],
        redirected: bool,
        state: &mut ShellState,
    ) -> bool {
        match name {
            ":" | "true" | "false" | "echo" | "pwd" | "exit" | "logout" | "return" | "break" | "continue"
            | "shift" | "jobs" | "kill" | "times" | "umask" | "ulimit" | "type" | "bg" | "fg" | "disown"
            | "suspend" | "caller" | "help" => {}
            "[" | "test" => self.test_command(operands),
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                self.declare(name, operands, redirected, state)
            }
            "unset" => self.unset(operands, state),
            "read" => self.names_after_options(name, operands, "adinNptu", state),
            "mapfile" | "readarray" => {
                if operands
                    .iter()
                    .any(|operand| operand.field.word.as_text().is_none_or(|text| text.starts_with("-C")))
                {
                    self.add_unresolved_here("`mapfile -C` runs a command for the lines that it reads");
                    for operand in operands {
                        if let Some(text) = operand.field.word.as_text().map(str::to_owned) {
                            self.read_subshell_text("callback", text.trim_start_matches("-C"), state);
                        }
                    }
                }
                self.names_after_options(name, operands, "dnOsuCc", state);
                state.set("MAPFILE", VariableValue::Unknown);
            }
            "getopts" => {
                state.forget_variables();
                if operands.get(1).is_some_and(|operand| plain_name(operand).is_none()) {
                    self.add_unresolved_here("`getopts` evaluates the subscript of its operand");
                }
            }
            "wait" => {
                self.lvalue_option(name, 'p', operands, state);
            }
            "printf" => self.lvalue_option(name, 'v', operands, state),
            "let" => {
                for operand in operands {
                    match operand.field.word.as_text().map(str::to_owned) {
                        Some(text) => {
                            self.expression(&text, true, state);
                        }
                        None => {
                            self.expression("", false, state);
                            state.forget_variables();
                        }
                    }
                }
            }
            "eval" => self.eval(operands, state),
            "." | "source" => {
                self.source(operands, state);
                return false;
            }
            "trap" => self.trap(operands, state),
            "alias" => self.alias(operands, state),
            "unalias" => {}
            "shopt" => self.shopt(operands),
            "set" => self.set(operands, state),
            "enable" => {
                if !operands.is_empty() {
                    self.add_unresolved_here("`enable` changes which names are builtins, or loads code");
                }
            }
            "hash" => {
                if operands.iter().any(|operand| {
                    operand.field.word.as_text().is_none_or(|text| text.starts_with("-") && text != "-r")
                }) {
                    self.add_unresolved_here("`hash` may change which file a name runs");
                }
            }
            "compgen" | "complete" | "compopt" | "bind" | "fc" => {
                if !operands.is_empty() {
                    self.add_unresolved_here(&format!("`{name}` may run or evaluate its arguments"));
                    for operand in operands {
                        if let Some(text) =
                            operand.field.word.as_text().filter(|text| text.len() > 2).map(str::to_owned)
                        {
                            self.read_subshell_text("callback", &text, state);
                        }
                    }
                }
            }
            // With operands, `exec` replaces the shell and the rest does not run, unless the program could not be started.
            "exec" => return operands.is_empty(),
            _ => return false,
        }
        true
    }

    /// Checks `test`: `-v` evaluates a subscript, and words that may be several may contain it.
    fn test_command(&mut self, operands: &[ExpandedOperand<'_>]) {
        for (at, operand) in operands.iter().enumerate() {
            let is_operator = match operand.field.word.as_text() {
                Some(text) => matches!(text, "-v" | "-R"),
                None => operand.field.splits || operands.len() <= 3 && at == 0,
            };
            if !is_operator {
                continue;
            }
            let evaluates = match (operand.field.word.as_text(), operands.get(at + 1)) {
                (Some(_), Some(next)) => plain_name(next).is_none() && next.field.word.as_text() != Some("]"),
                (Some(_), None) => false,
                (None, _) => {
                    operand.field.splits
                        || operands.get(at + 1).is_some_and(|next| next.field.word.as_text() != Some("]"))
                }
            };
            // A quoted operand before a binary operator is only text.
            let is_text =
                operands.get(at + 1).and_then(|next| next.field.word.as_text()).is_some_and(|next| {
                    matches!(
                        next,
                        "=" | "=="
                            | "!="
                            | "-eq"
                            | "-ne"
                            | "-lt"
                            | "-le"
                            | "-gt"
                            | "-ge"
                            | "-nt"
                            | "-ot"
                            | "-ef"
                            | "<"
                            | ">"
                    )
                }) && !operand.field.splits;
            if evaluates && !is_text {
                self.add_unresolved_here("`test` may evaluate the subscript of an operand");
            }
        }
    }

    /// Handles `read` and similar: options, some of which take a value, then names to assign to.
    fn names_after_options(
        &mut self,
        name: &str,
        operands: &[ExpandedOperand<'_>],
        with_value: &str,
        state: &mut ShellState,
    ) {
        let mut rest = operands.iter();
        let mut options = true;
        while let Some(operand) = rest.next() {
            let Some(text) = operand.field.word.as_text() else {
                self.add_unresolved_here(&format!("`{name}` evaluates the subscript of its operand"));
                state.forget_variables();
                continue;
            };
            if options && text == "--" {
                options = false;
            } else if let Some(letters) =
                text.strip_prefix('-').filter(|letters| options && !letters.is_empty())
            {
                let Some(at) = letters.find(|c| with_value.contains(c)) else { continue };
                let (_, valued) = letters.split_at(at);
                let attached: String = valued.chars().skip(1).collect();
                let is_array = valued.starts_with('a');
                let value = if attached.is_empty() { rest.next() } else { None };
                if is_array {
                    let array = value
                        .and_then(plain_name)
                        .or(Some(attached).filter(|name| crate::syntax::is_name(name)));
                    match array {
                        Some(array) => {
                            state.mark_uncertain(&array);
                            self.note_assignment(&array);
                        }
                        None => self
                            .add_unresolved_here(&format!("`{name}` evaluates the subscript of its operand")),
                    }
                } else if value.is_some_and(|value| value.field.splits) {
                    self.add_unresolved_here(&format!("`{name}` evaluates the subscript of its operand"));
                    state.forget_variables();
                }
            } else {
                options = false;
                match plain_name(operand) {
                    Some(variable) => {
                        state.set(&variable, VariableValue::Unknown);
                        self.note_assignment(&variable);
                    }
                    None => {
                        self.add_unresolved_here(&format!("`{name}` evaluates the subscript of its operand"));
                        state.forget_variables();
                    }
                }
            }
        }
        if name != "read" {
            state.forget_variables();
        }
    }

    /// Handles `printf -v NAME` and `wait -p NAME`.
    fn lvalue_option(
        &mut self,
        name: &str,
        option: char,
        operands: &[ExpandedOperand<'_>],
        state: &mut ShellState,
    ) {
        let why = format!("`{name} -{option}` evaluates the subscript of its operand");
        let mut rest = operands.iter();
        while let Some(operand) = rest.next() {
            let Some(text) = operand.field.word.as_text() else {
                self.add_unresolved_here(&why);
                state.forget_variables();
                return;
            };
            let Some(letters) =
                text.strip_prefix('-').filter(|letters| !letters.is_empty() && *letters != "-")
            else {
                return;
            };
            let Some((_, attached)) = letters.split_once(option) else { continue };
            let variable = if attached.is_empty() {
                rest.next().and_then(plain_name)
            } else {
                Some(attached.to_owned()).filter(|name| crate::syntax::is_name(name))
            };
            match variable {
                Some(variable) => {
                    state.set(&variable, VariableValue::Unknown);
                    self.note_assignment(&variable);
                }
                None => {
                    self.add_unresolved_here(&why);
                    state.forget_variables();
                }
            }
        }
    }

    fn eval(&mut self, operands: &[ExpandedOperand<'_>], state: &mut ShellState) {
        let words: Option<Vec<&str>> = operands.iter().map(|operand| operand.field.word.as_text()).collect();
        match words {
            Some(words) => {
                let words =
                    if words.first() == Some(&"--") { words.get(1..).unwrap_or_default() } else { &words };
                let text = words.join(" ");
                self.read_nested_text("eval", &text, state);
            }
            None => {
                self.add_unresolved_here("`eval` runs unknown text");
                state.forget("`eval` may have changed it");
            }
        }
    }

    fn source(&mut self, operands: &[ExpandedOperand<'_>], state: &mut ShellState) {
        let operands = match operands.first() {
            Some(first) if first.field.word.as_text() == Some("--") => operands.get(1..).unwrap_or_default(),
            _ => operands,
        };
        let Some(first) = operands.first() else { return };
        let path = first.field.word.as_text().map(str::to_owned);
        let text = match (&path, &state.working_dir) {
            (Some(path), ShellDirectory::At { physical, .. })
                if path.contains('/') && state.are_files_unchanged() =>
            {
                self.env.resolve(physical, path).and_then(|path| self.env.read_script(&path))
            }
            _ => None,
        };
        match text.filter(|text| text.len() <= super::TEXT_BYTES_MAX && !text.contains('\0')) {
            Some(text) => self.read_nested_text("source", &text, state),
            None => {
                let path = path.unwrap_or_else(|| "…".to_owned());
                self.add_unresolved_here(&format!("`source {path}` runs unknown text"));
                state.forget("`source` may have changed it");
            }
        }
    }

    fn trap(&mut self, operands: &[ExpandedOperand<'_>], state: &mut ShellState) {
        let operands = match operands.first().and_then(|first| first.field.word.as_text()) {
            Some("--") => operands.get(1..).unwrap_or_default(),
            Some(option) if option.starts_with('-') && option != "-" => return,
            _ => operands,
        };
        let Some((action, signals)) = operands.split_first() else { return };
        if signals.is_empty() {
            return;
        }
        match action.field.word.as_text().map(str::to_owned) {
            Some(text) if text == "-" || text.is_empty() => {}
            Some(text) => {
                let mut later = state.clone();
                later.forget("the trap runs whenever the signal arrives");
                later.functions = state.functions.clone();
                self.read_nested_text("trap", &text, &mut later);
                let at_end = signals.iter().all(|signal| {
                    matches!(signal.field.word.as_text(), Some("EXIT" | "0" | "SIGEXIT" | "exit"))
                });
                // A trap on any other signal may run between any two commands.
                let quiet = text
                    .split_whitespace()
                    .next()
                    .is_some_and(|word| matches!(word, "rm" | "echo" | "kill" | "exit"))
                    && !text.contains([';', '\n', '=', '$', '`', '&', '|', '(']);
                if !quiet && !at_end {
                    self.add_unresolved_here(
                        "a trap may run between any two commands and change their environment",
                    );
                    state.forget("a trap may change it");
                }
            }
            None => {
                self.add_unresolved_here("a trap runs unknown text");
                state.forget("a trap may change it");
            }
        }
    }

    fn alias(&mut self, operands: &[ExpandedOperand<'_>], state: &mut ShellState) {
        for operand in operands {
            match operand.field.word.as_text().map(str::to_owned) {
                Some(text) => {
                    if let Some((_, value)) = text.split_once('=') {
                        self.add_unresolved_here("an alias may stand for another command");
                        self.read_subshell_text("alias", value, state);
                    }
                }
                None => self.add_unresolved_here("an alias may stand for another command"),
            }
        }
    }

    fn shopt(&mut self, operands: &[ExpandedOperand<'_>]) {
        let asks = operands.iter().all(|operand| {
            operand
                .field
                .word
                .as_text()
                .is_some_and(|text| !text.starts_with('-') || matches!(text, "-q" | "-p" | "-o"))
        });
        if !asks {
            self.add_unresolved_here("`shopt` changes how text is parsed");
        }
    }

    fn set(&mut self, operands: &[ExpandedOperand<'_>], state: &mut ShellState) {
        let mut rest = operands.iter();
        while let Some(operand) = rest.next() {
            let Some(text) = operand.field.word.as_text() else {
                if operand.field.splits || operand.raw.parts.len() == 1 {
                    self.add_unresolved_here("`set` may change how text is parsed");
                    state.forget_variables();
                }
                return;
            };
            let Some(letters) = text.strip_prefix(['-', '+']) else { return };
            if letters.is_empty() || letters == "-" {
                return;
            }
            for letter in letters.chars() {
                match letter {
                    'e' | 'u' | 'x' | 'v' | 'h' | 'b' | 'E' | 'C' => {}
                    'o' => {
                        let option = rest.next().and_then(|operand| operand.field.word.as_text());
                        if !matches!(
                            option,
                            None | Some(
                                "pipefail"
                                    | "errexit"
                                    | "nounset"
                                    | "xtrace"
                                    | "verbose"
                                    | "errtrace"
                                    | "noclobber"
                            )
                        ) {
                            self.add_unresolved_here("`set` may change how text is parsed");
                        }
                    }
                    _ => self.add_unresolved_here("`set` may change how text is parsed"),
                }
            }
        }
    }

    fn unset(&mut self, operands: &[ExpandedOperand<'_>], state: &mut ShellState) {
        for operand in operands {
            match operand.field.word.as_text() {
                Some(text) if text.starts_with('-') => {}
                Some(text) => {
                    let text = text.to_owned();
                    state.functions.remove(&text);
                    if crate::syntax::is_name(&text) {
                        // Without `IFS`, the default splitting applies again, which is not tracked.
                        state.set(&text, VariableValue::Unknown);
                        self.note_assignment(&text);
                    } else {
                        self.add_unresolved_here("`unset` evaluates the subscript of its operand");
                        state.forget_variables();
                    }
                }
                None => {
                    self.add_unresolved_here("`unset` evaluates the subscript of its operand");
                    state.forget_variables();
                    state.functions.clear();
                }
            }
        }
    }
}
