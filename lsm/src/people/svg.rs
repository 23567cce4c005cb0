//! A state diagram as a picture, laid out here.
//!
//! The layout is the simplest one with layers: a state stands one layer below the nearest state that leads to it, counted from
//! the initial one. Within a layer, states are put below the middle of those that they come from, a few times up and down, so
//! that most arrows are short. Arrows down go straight; arrows up and along a layer are bent to the right.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::diagram::{Arrow, arrows, colours};
use crate::definition::Lifecycle;

/// Sizes in pixels.
const HEIGHT: f64 = 34.0;
const BETWEEN_LAYERS: f64 = 90.0;
const BETWEEN_STATES: f64 = 46.0;
const MARGIN: f64 = 60.0;
/// The width of a character of the font, about.
const CHARACTER: f64 = 7.5;
/// How often the order within layers is mended; more changes little.
const SWEEPS: usize = 6;

/// Where a state is drawn: the middle of its box, and its width.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
}

/// A state diagram as SVG, in which the state where an instance is stands out.
#[must_use]
pub fn svg(lifecycle: &Lifecycle, current: Option<&str>) -> String {
    let arrows = arrows(lifecycle);
    let places = places(lifecycle, &arrows);
    let right = places.values().map(|place| place.x + place.width / 2.0);
    let right = right.fold(0.0, f64::max) + 2.0 * MARGIN;
    let bottom = places.values().map(|place| place.y).fold(0.0, f64::max) + MARGIN;
    // Writing to a text does not fail.
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right:.0} {bottom:.0}\" width=\"{right:.0}\" \
         height=\"{bottom:.0}\" font-family=\"sans-serif\" font-size=\"13\">"
    );
    let _ = writeln!(out, "<title>{}</title>", escaped(&lifecycle.name));
    out.push_str(
        "<defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path d=\"M0 0 L8 4 L0 8 z\" fill=\"context-stroke\"/></marker></defs>\n",
    );
    for arrow in &arrows {
        if let (Some(from), Some(to)) = (places.get(arrow.from), places.get(arrow.to)) {
            draw_arrow(&mut out, arrow, *from, *to);
        }
    }
    for state in &lifecycle.states {
        let Some(Place { x, y, width }) = places.get(state.name.as_str()).copied() else {
            continue;
        };
        let (inside, around) = colours(state);
        let is_current = current == Some(&state.name);
        let thick = match (state.deleted, state.name == lifecycle.initial_state) {
            _ if is_current => 5,
            (false, false) => 1,
            _ => 3,
        };
        let weight = if is_current {
            " font-weight=\"bold\""
        } else {
            ""
        };
        let (left, top) = (x - width / 2.0, y - HEIGHT / 2.0);
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" rx=\"8\" fill=\"{inside}\" \
             stroke=\"{around}\" stroke-width=\"{thick}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\"{weight}>{}</text>",
            y + 4.5,
            escaped(&state.name)
        );
    }
    out.push_str("</svg>\n");
    out
}

fn draw_arrow(out: &mut String, arrow: &Arrow<'_>, from: Place, to: Place) {
    let colour = if arrow.is_error { "#c0392b" } else { "#555555" };
    let half = HEIGHT / 2.0;
    let (path, x, y) = if arrow.from == arrow.to {
        let (x, y) = (from.x + from.width / 2.0, from.y);
        let path = format!(
            "M{x:.1} {:.1} C{:.1} {:.1} {:.1} {:.1} {x:.1} {:.1}",
            y - 8.0,
            x + 40.0,
            y - 24.0,
            x + 40.0,
            y + 24.0,
            y + 8.0
        );
        (path, x + 34.0, y)
    } else if to.y > from.y {
        let (start, end) = (from.y + half, to.y - half);
        let middle = f64::midpoint(start, end);
        let path = format!(
            "M{:.1} {start:.1} C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {end:.1}",
            from.x, from.x, to.x, to.x
        );
        // Two arrows that begin together have their texts near their ends.
        (path, from.x * 0.4 + to.x * 0.6, start * 0.4 + end * 0.6)
    } else {
        let (start, end) = (from.x + from.width / 2.0, to.x + to.width / 2.0);
        let bend = start.max(end) + 30.0 + (from.y - to.y) * 0.15;
        let path = format!(
            "M{start:.1} {:.1} C{bend:.1} {:.1} {bend:.1} {:.1} {end:.1} {:.1}",
            from.y, from.y, to.y, to.y
        );
        (path, bend - 10.0, f64::midpoint(from.y, to.y))
    };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" marker-end=\"url(#end)\"/><text x=\"{x:.1}\" y=\"{y:.1}\" \
         fill=\"{colour}\" font-size=\"11\" text-anchor=\"middle\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
        escaped(&arrow.text)
    );
}

fn places<'l>(lifecycle: &'l Lifecycle, arrows: &[Arrow<'l>]) -> BTreeMap<&'l str, Place> {
    let mut layers = layers(lifecycle, arrows);
    for sweep in 0..SWEEPS {
        order(&mut layers, arrows, sweep % 2 == 0);
    }
    let width = |name: &str| name.chars().count() as f64 * CHARACTER + 24.0;
    let total = |layer: &Vec<&str>| {
        let boxes: f64 = layer.iter().map(|name| width(name) + BETWEEN_STATES).sum();
        boxes - BETWEEN_STATES
    };
    let widest = layers.iter().map(total).fold(0.0, f64::max);
    let mut places = BTreeMap::new();
    for (at, layer) in layers.iter().enumerate() {
        let mut left = MARGIN + (widest - total(layer)) / 2.0;
        for name in layer {
            let width = width(name);
            let y = MARGIN + at as f64 * BETWEEN_LAYERS;
            places.insert(
                *name,
                Place {
                    x: left + width / 2.0,
                    y,
                    width,
                },
            );
            left += width + BETWEEN_STATES;
        }
    }
    places
}

/// States by their distance from the initial one; those that nothing leads to come last.
fn layers<'l>(lifecycle: &'l Lifecycle, arrows: &[Arrow<'l>]) -> Vec<Vec<&'l str>> {
    let mut seen: Vec<&str> = vec![&lifecycle.initial_state];
    let mut layers = vec![seen.clone()];
    loop {
        let last = layers.last().map(Vec::as_slice).unwrap_or_default();
        let mut next = Vec::new();
        for arrow in arrows.iter().filter(|arrow| last.contains(&arrow.from)) {
            if !seen.contains(&arrow.to) {
                seen.push(arrow.to);
                next.push(arrow.to);
            }
        }
        if next.is_empty() {
            break;
        }
        layers.push(next);
    }
    let others = lifecycle.states.iter().map(|state| state.name.as_str());
    let others: Vec<&str> = others.filter(|name| !seen.contains(name)).collect();
    if !others.is_empty() {
        layers.push(others);
    }
    layers
}

/// Puts each layer into the order of the middles of its neighbours in the layer above, or below.
fn order(layers: &mut [Vec<&str>], arrows: &[Arrow<'_>], is_down: bool) {
    for step in 1..layers.len() {
        let (at, beside) = if is_down {
            (step, step - 1)
        } else {
            (layers.len() - 1 - step, layers.len() - step)
        };
        let neighbours = layers[beside].clone();
        let position = |name: &str| neighbours.iter().position(|one| *one == name);
        let middle = |name: &str| {
            let ends =
                arrows
                    .iter()
                    .filter_map(|arrow| match (arrow.from == name, arrow.to == name) {
                        (true, false) => position(arrow.to),
                        (false, true) => position(arrow.from),
                        _ => None,
                    });
            let (n, sum) = ends.fold((0_usize, 0), |(n, sum), at| (n + 1, sum + at));
            if n == 0 {
                f64::MAX
            } else {
                sum as f64 / n as f64
            }
        };
        layers[at].sort_by(|left, right| middle(left).total_cmp(&middle(right)));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
