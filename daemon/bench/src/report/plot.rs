// SPDX-License-Identifier: Apache-2.0
//! Bars, as in the figures 8 and 9 of Magnet's paper: one group for each block size, one bar for each server.

use std::fs;
use std::path::Path;

use plotters::prelude::*;

use super::Phase;
use super::summary::Summary;
use crate::error::{BenchError, at};

const HEIGHT: u32 = 480;

/// Room for the axis, and for each group with its name below it.
const WIDTH: (u32, u32) = (120, 160);

const LETTERS: (&str, u32) = ("sans-serif", 14);

/// Colours that people with any eyes can tell apart, and a printer too.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(120, 120, 120),
];

/// Room around the bars of a group.
const GAP: f64 = 0.15;

/// A figure: what stands on its y axis.
struct Figure {
    file: &'static str,
    title: &'static str,
    axis: &'static str,
    phases: &'static [Phase],
    value: fn(&Summary) -> Option<f64>,
}

const ALL: &[Phase] = &[Phase::Push, Phase::FetchMerged, Phase::FetchOriginals];

const FIGURES: [Figure; 5] = [
    Figure {
        file: "push-seconds.svg",
        title: "Pushing all blocks",
        axis: "seconds",
        phases: &[Phase::Push],
        value: |one| Some(one.seconds.median),
    },
    Figure {
        file: "fetch-seconds.svg",
        title: "Fetching all blocks, merged and not",
        axis: "seconds",
        phases: &[Phase::FetchMerged, Phase::FetchOriginals],
        value: |one| Some(one.seconds.median),
    },
    Figure {
        file: "throughput.svg",
        title: "Throughput",
        axis: "MB/s",
        phases: ALL,
        value: |one| Some(one.megabytes_a_second.median),
    },
    Figure {
        file: "cpu.svg",
        title: "Processor time of the server",
        axis: "CPU s per GB",
        phases: ALL,
        value: |one| one.cpu_seconds_per_gb,
    },
    Figure {
        file: "memory.svg",
        title: "Most memory of the server",
        axis: "MiB",
        phases: ALL,
        value: |one| {
            one.peak_rss_bytes
                .map(|bytes| bytes as f64 / f64::from(1 << 20))
        },
    },
];

/// Draws the figures for which there are values into files of a folder.
pub fn draw(folder: &Path, summaries: &[Summary]) -> Result<(), BenchError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    for figure in &FIGURES {
        let bars = figure.bars(summaries);
        if bars.is_empty() {
            continue;
        }
        let path = folder.join(figure.file);
        figure
            .draw(&path, &bars)
            .map_err(|error| BenchError::Plot {
                path,
                why: error.to_string(),
            })?;
    }
    Ok(())
}

/// A bar: the group it stands in, its series, its height.
type Bar = (String, String, f64);

impl Figure {
    fn bars(&self, summaries: &[Summary]) -> Vec<Bar> {
        let wanted = summaries
            .iter()
            .filter(|one| self.phases.contains(&one.phase));
        let bar = |one: &Summary| {
            let group = match self.phases {
                [_] => one.block.clone(),
                _ => format!("{}, {}", one.block, one.phase),
            };
            Some((group, one.server.clone(), (self.value)(one)?))
        };
        wanted.filter_map(bar).collect()
    }

    fn draw(&self, path: &Path, bars: &[Bar]) -> Result<(), Box<dyn std::error::Error>> {
        let groups = distinct(bars.iter().map(|(group, ..)| group));
        let series = distinct(bars.iter().map(|(_, series, _)| series));
        let highest = bars.iter().map(|(.., height)| *height).fold(0.0, f64::max);
        let width = WIDTH.0 + WIDTH.1 * groups.len().max(3) as u32;
        let area = SVGBackend::new(path, (width, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 22))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..groups.len() as f64, 0.0..(highest * 1.15).max(1e-9))?;
        let name = |x: &f64| match x.fract() {
            half if (half - 0.5).abs() < 1e-6 => {
                groups.get(*x as usize).cloned().unwrap_or_default()
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(2 * groups.len() + 1)
            .x_label_formatter(&name)
            .y_desc(self.axis)
            .label_style(LETTERS)
            .draw()?;
        let width = (1.0 - 2.0 * GAP) / series.len() as f64;
        for (place, server) in series.iter().enumerate() {
            let colour = COLOURS.get(place % COLOURS.len()).unwrap_or(&BLACK);
            let of_server = bars.iter().filter(|(_, series, _)| series == server);
            let places = of_server.map(|(group, _, height)| {
                let group = groups.iter().position(|one| one == group).unwrap_or(0);
                (group as f64 + GAP + place as f64 * width, *height)
            });
            let places: Vec<(f64, f64)> = places.collect();
            // A bar that is much smaller than another one can still be read.
            let numbers = places.iter().map(|(left, height)| {
                let above = (*left, height + highest * 0.04);
                Text::new(short(*height), above, LETTERS)
            });
            chart.draw_series(numbers)?;
            let shapes = places.iter().map(|(left, height)| {
                let corners = [(*left, 0.0), (left + 0.92 * width, *height)];
                Rectangle::new(corners, colour.filled())
            });
            chart
                .draw_series(shapes)?
                .label(server.as_str())
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .label_font(LETTERS)
            .border_style(BLACK)
            .draw()?;
        area.present()?;
        Ok(())
    }
}

/// Three digits, or all that stand before the point.
fn short(value: f64) -> String {
    match value {
        large if large >= 100.0 => format!("{large:.0}"),
        middle if middle >= 10.0 => format!("{middle:.1}"),
        small => format!("{small:.2}"),
    }
}

/// Each once, in the order in which they first come.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        if !seen.contains(name) {
            seen.push(name.clone());
        }
    }
    seen
}
