//! YAML text as a tree that knows where each of its parts stands.
//!
//! Every node keeps its place, so that all faults of a file can be told at once. Aliases are
//! expanded within [`MAX_NODES`] and [`MAX_DEPTH`]; duplicate keys, tags, keys that are not text and
//! second documents are refused. Nothing here decides what a scalar means: its reader does.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::fault::{Fault, FaultKind, Faults, Position, Quoted, Read, Reported};

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The deepest nesting of lists and mappings, aliases expanded.
pub const MAX_DEPTH: usize = 64;

/// The most nodes in a file, aliases expanded.
pub const MAX_NODES: usize = 1_000_000;

/// A part of a document and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it stands; what an alias stands for has the place of its anchor.
    pub at: Position,
    /// What it is.
    pub content: Content,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Content {
    /// Text, a number, a truth value or nothing.
    Scalar {
        /// The text, escapes resolved.
        text: String,
        /// Whether it stood without quotes.
        plain: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values, in the order of the file; no key twice.
    Mapping(Vec<(Key, Node)>),
}

/// A key of a mapping.
#[derive(Clone, Debug)]
pub struct Key {
    /// Where it stands.
    pub at: Position,
    /// The text.
    pub text: String,
}

impl Node {
    /// Whether this is YAML's null: `~`, `null` or nothing at all, without quotes.
    #[must_use]
    pub fn is_null(&self) -> bool {
        match &self.content {
            Content::Scalar { text, plain: true } => {
                matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
            }
            Content::Scalar { plain: false, .. } | Content::Sequence(_) | Content::Mapping(_) => {
                false
            }
        }
    }

    /// What this is, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.content {
            _ if self.is_null() => "nothing",
            Content::Scalar { .. } => "a single value",
            Content::Sequence(_) => "a list",
            Content::Mapping(_) => "a mapping",
        }
    }
}

/// Reads one document. An empty file is a null node.
///
/// # Errors
/// Faults of the syntax and of the bounds are recorded in `faults`.
pub fn parse(source: &[u8], faults: &mut Faults) -> Read<Node> {
    if source.len() > MAX_BYTES {
        let problem = format!("the file has more than {MAX_BYTES} bytes, and no more are read");
        return Err(faults.add(fault(FaultKind::OutOfRange, Position::default(), problem)));
    }
    let text = match std::str::from_utf8(source) {
        Ok(text) => text,
        Err(error) => {
            let good = &source[..error.valid_up_to()];
            let at = end_of(&String::from_utf8_lossy(good));
            let problem = format!("byte 0x{:02x} is not UTF-8", source[error.valid_up_to()]);
            let mut fault = fault(FaultKind::Syntax, at, problem);
            fault.help = Some("save the file as UTF-8".into());
            return Err(faults.add(fault));
        }
    };
    Builder {
        faults,
        source: text,
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
    }
    .run()
}

const fn fault(kind: FaultKind, at: Position, problem: String) -> Fault {
    Fault {
        kind,
        path: String::new(),
        at,
        problem,
        help: None,
        secret: false,
    }
}

fn end_of(text: &str) -> Position {
    let last = text.rsplit('\n').next().unwrap_or_default();
    Position {
        line: text.matches('\n').count() + 1,
        column: last.chars().count() + 1,
        offset: text.len(),
        len: 1,
    }
}

/// A finished node with the figures that bound its repetition.
#[derive(Clone)]
struct Built {
    node: Node,
    /// Nodes in it, itself included.
    size: usize,
    /// Levels of lists and mappings in it.
    height: usize,
}

/// A list or mapping whose end has not come.
struct Open {
    at: Position,
    anchor: usize,
    size: usize,
    height: usize,
    children: Children,
}

enum Children {
    Items(Vec<Node>),
    Entries {
        done: Vec<(Key, Node)>,
        /// Where each key was first given, to find it given twice.
        seen: HashMap<String, Position>,
        key: Option<Key>,
    },
}

struct Builder<'f, 's> {
    faults: &'f mut Faults,
    source: &'s str,
    open: Vec<Open>,
    anchors: HashMap<usize, Built>,
    nodes: usize,
}

impl Builder<'_, '_> {
    fn run(mut self) -> Read<Node> {
        let options = granit_parser::options! {
            emit_comments: false,
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
        };
        let mut root = None;
        for next in Parser::new_from_str_with_options(self.source, options) {
            let (event, span) = match next {
                Ok(next) => next,
                Err(error) => {
                    let mark = error.marker();
                    let at = Position {
                        line: mark.line(),
                        column: mark.col() + 1,
                        offset: mark.byte_offset().unwrap_or(0),
                        len: 0,
                    };
                    return Err(self.refuse(FaultKind::Syntax, at, error.info()));
                }
            };
            let at = position(span);
            if event.tag().is_some() {
                let problem = "tags (`!`) have no meaning here".into();
                return Err(self.refuse(FaultKind::Syntax, at, problem));
            }
            let done = match event {
                Event::Scalar(text, style, anchor, _) => {
                    self.count(at, 1)?;
                    let plain = style == ScalarStyle::Plain;
                    let content = Content::Scalar {
                        text: text.into_owned(),
                        plain,
                    };
                    let built = Built {
                        node: Node { at, content },
                        size: 1,
                        height: 0,
                    };
                    self.finish(built, anchor)?
                }
                Event::SequenceStart(_, anchor, _) => {
                    self.begin(at, anchor, Children::Items(Vec::new()))?;
                    None
                }
                Event::MappingStart(_, anchor, _) => {
                    let (done, seen) = (Vec::new(), HashMap::new());
                    self.begin(
                        at,
                        anchor,
                        Children::Entries {
                            done,
                            seen,
                            key: None,
                        },
                    )?;
                    None
                }
                Event::SequenceEnd | Event::MappingEnd => self.end(span)?,
                Event::Alias(anchor) => {
                    let copy = self.expand(at, anchor)?;
                    self.check_depth(at, copy.height)?;
                    self.finish(copy, 0)?
                }
                Event::DocumentStart(..) if root.is_some() => {
                    let problem = "a second document begins here: one to a file".into();
                    return Err(self.refuse(FaultKind::Syntax, at, problem));
                }
                // The parser's other events carry no content.
                _ => None,
            };
            if let Some(node) = done {
                root = Some(node);
            }
        }
        let nothing = Content::Scalar {
            text: String::new(),
            plain: true,
        };
        let start = Position {
            line: 1,
            column: 1,
            offset: 0,
            len: 0,
        };
        Ok(root.unwrap_or(Node {
            at: start,
            content: nothing,
        }))
    }

    fn refuse(&mut self, kind: FaultKind, at: Position, problem: String) -> Reported {
        self.faults.add(fault(kind, at, problem))
    }

    fn begin(&mut self, at: Position, anchor: usize, children: Children) -> Read<()> {
        self.count(at, 1)?;
        self.open.push(Open {
            at,
            anchor,
            size: 1,
            height: 1,
            children,
        });
        self.check_depth(at, 0)
    }

    fn expand(&mut self, at: Position, anchor: usize) -> Read<Built> {
        let Some(size) = self.anchors.get(&anchor).map(|built| built.size) else {
            // The parser knows the anchor, so its node has begun but not ended.
            let problem = "an alias to what contains it never ends".into();
            return Err(self.refuse(FaultKind::Syntax, at, problem));
        };
        self.count(at, size)?;
        Ok(self.anchors[&anchor].clone())
    }

    fn check_depth(&mut self, at: Position, more: usize) -> Read<()> {
        if self.open.len() + more > MAX_DEPTH {
            let problem = format!("nested more than {MAX_DEPTH} levels deep");
            return Err(self.refuse(FaultKind::OutOfRange, at, problem));
        }
        Ok(())
    }

    fn end(&mut self, span: Span) -> Read<Option<Node>> {
        let Some(open) = self.open.pop() else {
            let problem = "ends what was never begun".into();
            return Err(self.refuse(FaultKind::Syntax, position(span), problem));
        };
        let content = match open.children {
            Children::Items(items) => Content::Sequence(items),
            Children::Entries { done, .. } => Content::Mapping(done),
        };
        let mut at = open.at;
        if let Some(end) = span.byte_range() {
            // A block's end is where the next token begins: white space is no part of it.
            let text = self.source.get(at.offset..end.end).unwrap_or_default();
            at.len = text.trim_end().len();
        }
        let node = Node { at, content };
        self.finish(
            Built {
                node,
                size: open.size,
                height: open.height,
            },
            open.anchor,
        )
    }

    /// Puts a finished node where it belongs; returns it if that is the root.
    fn finish(&mut self, built: Built, anchor: usize) -> Read<Option<Node>> {
        let at = built.node.at;
        self.check_depth(at, built.height)?;
        if anchor != 0 {
            self.count(at, built.size)?;
            self.anchors.insert(anchor, built.clone());
        }
        let Some(mut parent) = self.open.pop() else {
            return Ok(Some(built.node));
        };
        parent.size += built.size;
        parent.height = parent.height.max(built.height + 1);
        let added = self.add_child(&mut parent.children, built.node);
        self.open.push(parent);
        added.map(|()| None)
    }

    /// Counts nodes before they are made, copies too.
    fn count(&mut self, at: Position, more: usize) -> Read<()> {
        self.nodes += more;
        if self.nodes > MAX_NODES {
            let problem = format!("more than {MAX_NODES} values, aliases expanded");
            return Err(self.refuse(FaultKind::OutOfRange, at, problem));
        }
        Ok(())
    }

    fn add_child(&mut self, children: &mut Children, node: Node) -> Read<()> {
        match children {
            Children::Items(items) => items.push(node),
            Children::Entries { done, seen, key } => match key.take() {
                Some(key) => {
                    let at = key.at;
                    if let Some(first) = seen.insert(key.text.clone(), at) {
                        let problem = format!(
                            "{} is given twice: first in line {}",
                            Quoted(&key.text),
                            first.line
                        );
                        self.refuse(FaultKind::DuplicateKey, at, problem);
                    } else {
                        done.push((key, node));
                    }
                }
                None => match node.content {
                    Content::Scalar { text, .. } => *key = Some(Key { at: node.at, text }),
                    Content::Sequence(_) | Content::Mapping(_) => {
                        let problem = format!("{} cannot be a key", node.kind());
                        return Err(self.refuse(FaultKind::Syntax, node.at, problem));
                    }
                },
            },
        }
        Ok(())
    }
}

fn position(span: Span) -> Position {
    let range = span.byte_range().unwrap_or_default();
    Position {
        line: span.start.line(),
        column: span.start.col() + 1,
        offset: range.start,
        len: range.len(),
    }
}
