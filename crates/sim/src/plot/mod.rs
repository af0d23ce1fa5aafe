//! Charts of lines, written as SVG or PNG. What is drawn is handed in as numbers and names; the same figure gives the
//! same bytes on every machine, since the font comes with the code.
//!
//! Nothing here knows what the numbers mean, and nothing here computes any.

mod draw;

use std::io;
use std::path::{Path, PathBuf};

/// A figure: panels one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows, in a line.
    pub title: String,
    /// Its panels, at least one.
    pub panels: Vec<Panel>,
}

/// One pair of axes and what is drawn on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical one.
    pub y: Axis,
    /// Lines, first to last, as the legend lists them.
    pub lines: Vec<Line>,
    /// Heights or places that are marked across the panel.
    pub marks: Vec<Mark>,
    /// Where the legend is in the way least.
    pub legend: Corner,
}

/// A corner of a panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corner {
    /// Above, at the left.
    UpperLeft,
    /// Below, at the right.
    LowerRight,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it counts, unit included.
    pub name: String,
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// How its numbers are written.
    pub numbers: Numbers,
}

/// How an axis writes its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// As they are.
    Plain,
    /// 1 as 100%.
    Percent,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A thin line across a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What the legend calls it.
    pub name: String,
    /// Where it stands.
    pub at: Place,
}

/// Where a mark stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// Upright, at this value of the horizontal axis.
    X(f64),
    /// Level, at this value of the vertical axis.
    Y(f64),
}

/// Why a figure was not drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The name does not say how.
    #[error("{}: a plot's name ends in .svg or .png", .0.display())]
    Name(PathBuf),
    /// The file cannot be written.
    #[error("{}: {source}", file.display())]
    Io {
        /// Which.
        file: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The drawing library refused.
    #[error("the plot cannot be drawn: {0}")]
    Draw(String),
    /// The picture could not be packed.
    #[error("the plot cannot be written as PNG: {0}")]
    Png(#[from] png::EncodingError),
}

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text that scales.
    Svg,
    /// A picture.
    Png,
}

impl Format {
    /// By a file's name.
    ///
    /// # Errors
    /// [`PlotError::Name`] if it ends neither in `.svg` nor in `.png`.
    pub fn of(file: &Path) -> Result<Self, PlotError> {
        let ending = file.extension().and_then(|ending| ending.to_str());
        match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            Some(_) | None => Err(PlotError::Name(file.to_owned())),
        }
    }
}

/// A figure as SVG.
///
/// # Errors
/// [`PlotError::Draw`].
pub fn svg(figure: &Figure) -> Result<String, PlotError> {
    draw::svg(figure)
}

/// Writes a figure to a file, in the format that its name says. A file that is there is replaced.
///
/// # Errors
/// [`PlotError`]; nothing is written if the figure cannot be drawn.
pub fn write(file: &Path, figure: &Figure) -> Result<(), PlotError> {
    let bytes = match Format::of(file)? {
        Format::Svg => svg(figure)?.into_bytes(),
        Format::Png => draw::png(figure)?,
    };
    std::fs::write(file, bytes).map_err(|source| PlotError::Io {
        file: file.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_the_format() {
        for (name, format) in [("a.svg", Format::Svg), ("b/c.PNG", Format::Png)] {
            assert_eq!(Format::of(Path::new(name)).unwrap(), format);
        }
        for name in ["a", "svg", "a.gif", ".png"] {
            let error = Format::of(Path::new(name)).unwrap_err().to_string();
            assert!(error.ends_with("ends in .svg or .png"), "{error}");
        }
    }
}
