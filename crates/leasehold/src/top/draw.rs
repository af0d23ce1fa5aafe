//! A picture as a terminal shows it, and the same as plain text.

use std::fmt::Write as _;

use anyhow::Context as _;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use ratatui::{Frame, Terminal};

use super::picture::{Node, Picture, State};

/// Plain text is so wide at least; what is not well may need more.
const TEXT_WIDTH: usize = 120;

/// More keys than this are not printed as plain text.
const TEXT_KEYS: usize = 20;

/// Lines of what is not well, at most, where there is also a table of keys.
const MOST_FAULTS: usize = 8;

const HEADINGS: [&str; 9] = [
    "NODE", "STATE", "STARTS", "FOLD", "CONTACT", "OWNS", "OUT", "BACK", "HOLDS",
];

const AWAY: &str = "-";

/// Draws on a terminal. `None`: nothing is known yet.
pub fn frame(frame: &mut Frame<'_>, picture: Option<&Picture>) {
    let Some(picture) = picture else {
        frame.render_widget(Paragraph::new("asking the nodes..."), frame.area());
        return;
    };
    let faults = picture.faults.len().min(MOST_FAULTS);
    let [head, nodes, faulty, keys, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(height(picture.nodes.len() + 2)),
        Constraint::Length(if faults == 0 { 0 } else { height(faults + 1) }),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    parts(frame, picture, [head, nodes, faulty, keys]);
    frame.render_widget(Paragraph::new("q: end").style(Modifier::DIM), foot);
}

/// The picture without a terminal: the same tables, without colour or cut-off lines.
pub fn text(picture: &Picture) -> anyhow::Result<String> {
    let keys = picture.keys.len().min(TEXT_KEYS);
    let longest = picture.faults.iter().map(|it| fault(it).chars().count());
    let width = longest.max().unwrap_or(0).max(TEXT_WIDTH);
    let mut top = 0;
    let mut next = |rows: usize| {
        let area = Rect::new(0, top, height(width), height(rows));
        top = top.saturating_add(area.height);
        area
    };
    let faults = picture.faults.len();
    let areas = [
        next(2),
        next(picture.nodes.len() + 2),
        next(if faults == 0 { 0 } else { faults + 1 }),
        next(keys + 1),
    ];
    let backend = TestBackend::new(height(width), top);
    let mut terminal = Terminal::new(backend).context("plain text")?;
    terminal
        .draw(|frame| parts(frame, picture, areas))
        .context("plain text")?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(width) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    Ok(text)
}

/// More rows than a terminal can have are cut off.
fn height(rows: usize) -> u16 {
    u16::try_from(rows).unwrap_or(u16::MAX)
}

fn parts(frame: &mut Frame<'_>, picture: &Picture, [head, nodes, faulty, keys]: [Rect; 4]) {
    let (word, colour) = match (picture.answered, picture.well) {
        (0, _) => ("no node answers", Color::Red),
        (_, true) => ("the fleet is well", Color::Green),
        (_, false) => ("the fleet is not well", Color::Red),
    };
    let title = Line::from(vec![
        Span::styled(format!("leasehold {}", picture.cluster), Modifier::BOLD),
        Span::raw(format!(
            "  {} of {} nodes answer, ",
            picture.answered,
            picture.nodes.len()
        )),
        Span::styled(word, colour),
    ]);
    frame.render_widget(Paragraph::new(title), head);
    frame.render_widget(nodes_table(picture), nodes);
    let faults: Vec<Line<'_>> = picture
        .faults
        .iter()
        .map(|it| Line::styled(fault(it), Color::Red))
        .collect();
    frame.render_widget(Paragraph::new(faults), faulty);
    frame.render_widget(keys_table(picture), keys);
}

fn fault((name, text): &(String, String)) -> String {
    format!("{name}: {text}")
}

fn headings<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names).style(Style::new().add_modifier(Modifier::BOLD))
}

fn nodes_table(picture: &Picture) -> Table<'static> {
    let longest = picture.nodes.iter().map(|node| node.name.chars().count());
    let widths = [
        Constraint::Length(height(longest.max().unwrap_or(0).max(8))),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(12),
        Constraint::Length(12),
        Constraint::Length(24),
    ];
    Table::new(picture.nodes.iter().map(node_row), widths)
        .header(headings(HEADINGS))
        .column_spacing(2)
}

fn node_row(node: &Node) -> Row<'static> {
    let colour = match node.state {
        State::Well => Color::Green,
        State::NotWell | State::NotAsked => Color::Yellow,
        State::Away => Color::Red,
    };
    let figures = match node.said {
        None => [(); 7].map(|()| AWAY.to_owned()),
        Some(said) => [
            said.starts.to_string(),
            said.oldest_fold_ms
                .map_or_else(|| AWAY.to_owned(), |age| format!("{age} ms")),
            format!("{} of {}", said.contacts.0, said.contacts.1),
            said.owned_buckets.to_string(),
            said.credit_outstanding.to_string(),
            said.holdback.to_string(),
            format!("{} ({} units)", said.held_buckets, said.available),
        ],
    };
    let name_and_state = [
        Cell::from(node.name.clone()),
        Cell::from(node.state.word()).style(colour),
    ];
    let figures = figures.into_iter().map(Cell::from);
    Row::new(name_and_state.into_iter().chain(figures))
}

fn keys_table(picture: &Picture) -> Table<'static> {
    let rows = picture.keys.iter().map(|key| {
        Row::new([
            key.subject.clone(),
            key.demand_per_second.to_string(),
            key.owner.clone(),
        ])
    });
    let widths = [
        Constraint::Length(32),
        Constraint::Length(16),
        Constraint::Min(8),
    ];
    Table::new(rows, widths)
        .header(headings(["BUSIEST KEY (HASH)", "ASKED A SECOND", "OWNER"]))
        .column_spacing(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::picture::{Key, Said};

    fn picture() -> Picture {
        Picture {
            cluster: "prod".to_owned(),
            answered: 1,
            well: false,
            nodes: vec![
                Node {
                    name: "node-1".to_owned(),
                    state: State::Well,
                    said: Some(Said {
                        starts: 3,
                        oldest_fold_ms: Some(48),
                        contacts: (1, 2),
                        owned_buckets: 12,
                        credit_outstanding: 340,
                        holdback: 5,
                        held_buckets: 7,
                        available: 100,
                    }),
                },
                Node {
                    name: "node-2".to_owned(),
                    state: State::Away,
                    said: None,
                },
            ],
            faults: vec![("node-2".to_owned(), "x".repeat(200))],
            keys: vec![Key {
                subject: "00ff".repeat(8),
                demand_per_second: 1500,
                owner: "node-1".to_owned(),
            }],
        }
    }

    #[test]
    fn plain_text_has_everything_and_no_more() {
        let cells = |line: &str| -> Vec<String> {
            line.split("  ")
                .map(|cell| cell.trim().to_owned())
                .filter(|cell| !cell.is_empty())
                .collect()
        };
        let text = text(&picture()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "leasehold prod  1 of 2 nodes answer, the fleet is not well"
        );
        assert_eq!(cells(lines[2]), HEADINGS);
        let figures = [
            "node-1",
            "well",
            "3",
            "48 ms",
            "1 of 2",
            "12",
            "340",
            "5",
            "7 (100 units)",
        ];
        assert_eq!(cells(lines[3]), figures);
        assert_eq!(cells(lines[4])[..3], ["node-2", "away", "-"]);
        assert_eq!(lines[6], format!("node-2: {}", "x".repeat(200)));
        assert_eq!(cells(lines[9])[1..], ["1500", "node-1"]);
        assert_eq!(lines.len(), 10);
        assert!(lines.iter().all(|line| line.trim_end() == *line));
    }

    #[test]
    fn no_terminal_is_too_small_and_no_fleet_too_large() {
        let mut large = picture();
        large.nodes = vec![large.nodes[0].clone(); 1000];
        large.faults = vec![large.faults[0].clone(); 1000];
        for (columns, rows) in [(1, 1), (2, 3), (80, 24), (500, 200)] {
            let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
            for shown in [None, Some(&picture()), Some(&large)] {
                terminal.draw(|it| frame(it, shown)).unwrap();
            }
        }
        assert_eq!(text(&large).unwrap().lines().count(), 2 + 1002 + 1001 + 2);
    }
}
