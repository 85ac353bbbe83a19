//! Plots in SVG, both axes logarithmic.

use std::path::Path;

use plotters::prelude::*;

use super::results::Plot;
use crate::load::Failure;

/// How far the axis goes beyond the dearest point, so that the legend has room above the lines.
const HEADROOM: f64 = 8.0;

/// Writes each plot into the file it names.
pub(super) fn draw(directory: &Path, plots: &[Plot]) -> Result<(), Failure> {
    for plot in plots {
        draw_one(&directory.join(&plot.file), plot)?;
    }
    Ok(())
}

fn draw_one(file: &Path, plot: &Plot) -> Result<(), Failure> {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let [min_x, min_y] =
        [0, 1].map(|axis| points().fold(f64::MAX, |min, point| min.min([point.0, point.1][axis])));
    let [max_x, max_y] =
        [0, 1].map(|axis| points().fold(f64::MIN, |max, point| max.max([point.0, point.1][axis])));
    let area = SVGBackend::new(file, (760, 440)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(&plot.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(
            (min_x..max_x * 1.1).log_scale(),
            (min_y * 0.7..max_y * HEADROOM).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .light_line_style(WHITE)
        .draw()?;
    for (number, line) in plot.lines.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        let points = line.points.iter().copied();
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)).point_size(3))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
}
