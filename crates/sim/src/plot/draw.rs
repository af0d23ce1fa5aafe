//! Draws a figure by the plotters library.

use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{RelativeSize, register_font};

use super::{Axis, Corner, Figure, Line, Mark, Numbers, Panel, Place, PlotError};

/// How large a panel is, in pixels.
const PANEL: (u32, u32) = (960, 380);
/// What the title takes, in pixels.
const TITLE: u32 = 44;
/// Roboto, as far as plots need it (`fonts/README.md`).
static FONT: &[u8] = include_bytes!("../../fonts/Roboto-Regular-Latin.ttf");
/// What SVG readers that lack Roboto take in its place; here it is the name of [`FONT`].
const FAMILY: &str = "sans-serif";
/// Colors that most colorblind people can tell apart (M. Okabe and K. Ito, "Color Universal Design", 2008).
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

/// As text.
pub(super) fn svg(figure: &Figure) -> Result<String, PlotError> {
    let mut text = String::new();
    draw(figure, SVGBackend::with_string(&mut text, size(figure)))?;
    Ok(text)
}

/// As the bytes of a PNG file.
pub(super) fn png(figure: &Figure) -> Result<Vec<u8>, PlotError> {
    let (width, height) = size(figure);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    draw(
        figure,
        BitMapBackend::with_buffer(&mut pixels, (width, height)),
    )?;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}

fn size(figure: &Figure) -> (u32, u32) {
    (PANEL.0, TITLE + PANEL.1 * figure.panels.len().max(1) as u32)
}

fn draw<B: DrawingBackend>(figure: &Figure, backend: B) -> Result<(), PlotError> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    if !REGISTERED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, FONT).is_ok()) {
        return Err(PlotError::Draw("its font is damaged".to_owned()));
    }
    let all = backend.into_drawing_area();
    let drawn = || {
        all.fill(&WHITE)?;
        let below = all.titled(&figure.title, (FAMILY, 22))?;
        let areas = below.split_evenly((figure.panels.len().max(1), 1));
        for (panel, area) in figure.panels.iter().zip(&areas) {
            draw_panel(panel, area)?;
        }
        all.present()
    };
    drawn().map_err(|error| PlotError::Draw(error.to_string()))
}

fn draw_panel<B: DrawingBackend>(
    panel: &Panel,
    area: &DrawingArea<B, Shift>,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .margin_right(28)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(range(&panel.x), range(&panel.y))?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .label_style((FAMILY, 15))
        .axis_desc_style((FAMILY, 16))
        .x_desc(panel.x.name.as_str())
        .y_desc(panel.y.name.as_str())
        .x_label_formatter(&|value| number(*value, &panel.x))
        .y_label_formatter(&|value| number(*value, &panel.y))
        .draw()?;
    for Mark { name, at } in &panel.marks {
        let style = ShapeStyle::from(&RGBColor(90, 90, 90)).stroke_width(1);
        let ends = match *at {
            Place::X(x) => [(x, panel.y.from), (x, panel.y.to)],
            Place::Y(y) => [(panel.x.from, y), (panel.x.to, y)],
        };
        chart
            .draw_series(DashedLineSeries::new(ends, 6, 4, style))?
            .label(name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
    }
    // The first are drawn widest, so that one that lies beneath another is seen at its sides.
    let widths = (0..panel.lines.len() as u32)
        .rev()
        .map(|above| 2 + 2 * above.min(3));
    let styles = COLORS.iter().cycle().zip(widths);
    for (Line { name, points }, (color, width)) in panel.lines.iter().zip(styles) {
        let style = ShapeStyle::from(color).stroke_width(width);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style));
    }
    chart
        .configure_series_labels()
        .position(match panel.legend {
            Corner::UpperLeft => SeriesLabelPosition::UpperLeft,
            Corner::LowerRight => SeriesLabelPosition::LowerRight,
        })
        .margin(RelativeSize::Smaller(0.04))
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(180, 180, 180))
        .label_font((FAMILY, 15))
        .draw()
}

/// An axis that begins where it ends would have no room.
fn range(axis: &Axis) -> std::ops::Range<f64> {
    if axis.to > axis.from {
        axis.from..axis.to
    } else {
        axis.from..axis.from + 1.0
    }
}

fn number(value: f64, axis: &Axis) -> String {
    let (value, unit) = match axis.numbers {
        Numbers::Plain => (value, ""),
        Numbers::Percent => (value * 100.0, "%"),
    };
    // To a thousandth, so that a sum of tenths is not written to its last bit.
    format!("{}{unit}", (value * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let axis = |name: &str, numbers| Axis {
            name: name.to_owned(),
            from: 0.0,
            to: 1.0,
            numbers,
        };
        Figure {
            title: "What & why <1>".to_owned(),
            panels: vec![Panel {
                x: axis("share \u{d7} N", Numbers::Plain),
                y: axis("keys", Numbers::Percent),
                lines: vec![Line {
                    name: "by key".to_owned(),
                    points: vec![(0.0, 0.0), (0.5, 0.9), (1.0, 1.0)],
                }],
                marks: vec![Mark {
                    name: "even enough".to_owned(),
                    at: Place::X(0.25),
                }],
                legend: Corner::UpperLeft,
            }],
        }
    }

    #[test]
    fn an_svg_holds_its_texts_and_is_the_same_twice() {
        let text = svg(&figure()).unwrap();
        for part in [
            "What &amp; why &lt;1&gt;",
            "share \u{d7} N",
            "by key",
            "even enough",
            "100%",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert_eq!(svg(&figure()).unwrap(), text);
    }

    #[test]
    fn a_png_has_lines_and_letters_in_it() {
        let bytes = png(&figure()).unwrap();
        assert_eq!(png(&figure()).unwrap(), bytes);
        let mut reader = png::Decoder::new(std::io::Cursor::new(&bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (960, 424));
        let blue = |rgb: &[u8]| rgb == [0, 114, 178];
        assert!(pixels.chunks(3).filter(|rgb| blue(rgb)).count() > 500);
        // The title stands in the first rows.
        let title = &pixels[..960 * 3 * 40];
        assert!(title.chunks(3).filter(|rgb| rgb[0] < 100).count() > 100);
    }

    #[test]
    fn axes_without_length_and_figures_without_lines_are_drawn() {
        let mut figure = figure();
        figure.panels[0].x.to = 0.0;
        figure.panels[0].lines.clear();
        figure.panels[0].marks.clear();
        assert!(svg(&figure).is_ok());
        figure.panels.clear();
        assert!(png(&figure).is_ok());
    }
}
