//! Faults of policies on standard error: drawn with the faulty text on a terminal, else one a line.
//!
//! Only the faulty text itself is shown, not what stands beside it, and nothing where a secret may stand.

use std::fmt;
use std::io::IsTerminal as _;
use std::path::Path;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode,
};
use node::reload::ReadError;
use policy::fault::{Fault, PolicyErrors};

/// Prints why there is no policy.
pub fn print(error: &ReadError) {
    let lines = std::io::stderr().is_terminal();
    match error {
        ReadError::Faulty { path, errors } => {
            print_file(&path.display().to_string(), errors, lines);
        }
        ReadError::EnvoyFaulty(errors) => {
            for (name, errors) in &errors.files {
                print_file(name, errors, lines);
            }
        }
        other => eprintln!("{other}"),
    }
}

/// Prints what has no effect in a policy that is read all the same.
pub fn print_warnings(warnings: &[(String, Fault)]) {
    for (name, fault) in warnings {
        eprintln!("warning: {name}:{fault}");
    }
}

fn print_file(name: &str, errors: &PolicyErrors, with_lines: bool) {
    let source = with_lines
        .then(|| std::fs::read_to_string(Path::new(name)).ok())
        .flatten();
    for fault in errors.faults() {
        match &source {
            Some(source) => eprintln!("{}", with_line(name, source, fault, Style::of_terminal())),
            None => eprintln!("{name}:{fault}"),
        }
    }
    if errors.omitted() > 0 {
        eprintln!("{name}: and {} more", errors.omitted());
    }
}

/// How lines are drawn.
#[derive(Clone, Copy, Debug)]
enum Style {
    Colored,
    Plain,
}

impl Style {
    /// See <https://no-color.org>.
    fn of_terminal() -> Self {
        match std::env::var_os("NO_COLOR") {
            Some(value) if !value.is_empty() => Self::Plain,
            Some(_) | None => Self::Colored,
        }
    }
}

/// A fault with its text in the file.
fn with_line(name: &str, source: &str, fault: &Fault, style: Style) -> String {
    let theme = match style {
        Style::Colored => GraphicalTheme::unicode(),
        Style::Plain => GraphicalTheme::unicode_nocolor(),
    };
    let report = Report::new(name, source, fault);
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(theme).with_context_lines(0);
    if handler.render_report(&mut text, &report).is_err() {
        return format!("{name}:{fault}");
    }
    text
}

#[derive(Debug)]
struct Report<'f> {
    name: &'f str,
    fault: &'f Fault,
    source: NamedSource<String>,
    label: Option<LabeledSpan>,
}

impl<'f> Report<'f> {
    fn new(name: &'f str, source: &str, fault: &'f Fault) -> Self {
        let start = fault.at.offset.min(source.len());
        // A mapping or a list goes on for lines: its first one tells where it is.
        let text = source.get(start..).unwrap_or_default();
        let line = text.split('\n').next().unwrap_or_default().len();
        let len = fault.at.len.min(line);
        let label = (!fault.secret && fault.at.line > 0)
            .then(|| LabeledSpan::new(Some("here".to_owned()), start, len));
        Self {
            name,
            fault,
            source: NamedSource::new(name, source.to_owned()),
            label,
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.label.is_none() {
            write!(
                f,
                "{}:{}:{}: ",
                self.name, self.fault.at.line, self.fault.at.column
            )?;
        }
        if !self.fault.path.is_empty() {
            write!(f, "{}: ", self.fault.path)?;
        }
        f.write_str(&self.fault.problem)
    }
}

impl std::error::Error for Report<'_> {}

impl Diagnostic for Report<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.fault
            .help
            .as_ref()
            .map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.label.as_ref().map(|_| &self.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.label.iter().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(source: &str) -> String {
        let errors = policy::file::read(source.as_bytes()).unwrap_err();
        errors
            .faults()
            .iter()
            .map(|fault| with_line("p.yaml", source, fault, Style::Plain))
            .collect()
    }

    #[test]
    fn a_fault_shows_its_line_and_what_would_be_right() {
        let text = drawn("version: 1\nrules:\n  - {name: a, by: address, limits: [5/mni]}\n");
        assert!(
            text.contains("rules[0].limits[0]: `5/mni` has a window"),
            "{text}"
        );
        assert!(text.contains("p.yaml:3:37"), "{text}");
        assert!(text.contains("3 │ 5/mni"), "{text}");
        assert!(text.contains("help: write `100ms`"), "{text}");
    }

    #[test]
    fn a_line_that_may_hold_a_secret_is_not_shown() {
        let text = drawn(
            "version: 1\nsubjects:\n  - {api_key_hash: sk_live_1, user: a}\n  - {api_key: sk_live_2}\n\
             rules: [{name: a, by: address, limits: [5/s]}]\n",
        );
        assert!(
            text.contains("p.yaml:3:20: subjects[0].api_key_hash"),
            "{text}"
        );
        assert!(!text.contains("sk_live"), "{text}");
    }
}
