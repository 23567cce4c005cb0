//! A state diagram as a picture, laid out here so that no text ever lies on another text, a line or a box.
//!
//! # The layout
//!
//! The states stand in one column. Each arrow leaves its state on a line of its own, a *row*, with its text above it; goes to a
//! *track*, a vertical line beside the texts; and comes back on the row on which its target is entered:
//!
//! ```text
//!             ┌───────┐ AV
//!             │ start ├─────────┐      arrows down: on the right
//!             └───────┘         │
//!           U ┌───────┐◄────────┘
//!     ┌───────┤  up   │
//!     │       └───────┘                 arrows up: on the left
//! ```
//!
//! Arrows of one colour that come to the same state on the same side share its entry and the track, as trains do: each state has
//! at most four entries, so a picture grows with the number of its states and arrows, not with their crossings. Two groups share
//! a track where their ends are apart. Each row of a side has a height of its own, and texts stand between boxes and tracks,
//! where only rows are; that is why nothing can lie on a text.
//!
//! The order of the column is that of a walk along the arrows from the initial state, so most of them go down, and those of
//! errors lead to what is further below.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::diagram::{Arrow, arrows, colours, legend};
use crate::definition::Lifecycle;

/// Sizes in pixels.
const MARGIN: f64 = 16.0;
const BETWEEN_STATES: f64 = 22.0;
/// The least height of a box.
const HEIGHT: f64 = 34.0;
/// Between two rows: a text of 11 pixels, and its line.
const ROW: f64 = 18.0;
const BETWEEN_TRACKS: f64 = 12.0;
/// Between a box and a text, and between the texts and the first track.
const GAP: f64 = 12.0;
const CORNER: f64 = 5.0;
/// The width of a character in names of states, of 13 pixels, as broad as the fonts of browsers have them.
const NAME_CHARACTER: f64 = 8.5;
/// And in texts of arrows, of 11 pixels.
const TEXT_CHARACTER: f64 = 7.5;

/// Arrows that enter a state together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// The place of the state in the column.
    state: usize,
    is_right: bool,
    is_error: bool,
}

/// A box of the column.
#[derive(Debug, Default)]
struct Place {
    top: f64,
    height: f64,
}

/// Where everything is.
struct Layout<'l> {
    /// The states from top to bottom.
    column: Vec<&'l str>,
    places: Vec<Place>,
    /// The sides of all boxes.
    left: f64,
    right: f64,
    /// Of each entry its row and its track.
    entries: BTreeMap<Entry, (f64, f64)>,
    /// Of each arrow its entry and the row on which it leaves; `None`: it has no state at one of its ends.
    exits: Vec<Option<(Entry, f64)>>,
    width: f64,
    height: f64,
}

/// A state diagram as SVG, in which the state where an instance is stands out.
#[must_use]
pub fn svg(lifecycle: &Lifecycle, current: Option<&str>) -> String {
    let arrows = arrows(lifecycle);
    let layout = Layout::of(lifecycle, &arrows);
    let legend = legend(lifecycle);
    let texts = legend.iter().map(|line| breadth(line, TEXT_CHARACTER));
    let width = texts.fold(layout.width, |width, text| width.max(text + 2.0 * MARGIN));
    let height = legend.iter().fold(layout.height, |height, _| height + ROW);
    // Writing to a text does not fail.
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">"
    );
    let _ = writeln!(out, "<title>{}</title>", escaped(&lifecycle.name));
    out.push_str(
        "<defs><marker id=\":end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">\
         <path d=\"M0 0 L8 4 L0 8 z\" fill=\"context-stroke\"/></marker></defs>\n",
    );
    for (arrow, exit) in arrows.iter().zip(&layout.exits) {
        if let Some((entry, leaves)) = exit {
            layout.draw_arrow(&mut out, arrow, entry, *leaves);
        }
    }
    let x = f64::midpoint(layout.left, layout.right);
    for (name, place) in layout.column.iter().zip(&layout.places) {
        let Some(state) = lifecycle.states.iter().find(|state| state.name == *name) else {
            continue;
        };
        let (inside, around) = colours(state);
        let is_current = current == Some(name);
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
        let _ = writeln!(
            out,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"8\" fill=\"{inside}\" stroke=\"{around}\" \
             stroke-width=\"{thick}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\"{weight}>{}</text>",
            layout.left,
            place.top,
            layout.right - layout.left,
            place.height,
            place.top + place.height / 2.0 + 4.5,
            escaped(&state.name)
        );
    }
    // Below everything else.
    for (line, y) in legend.iter().zip(1..) {
        let y = layout.height + ROW * f64::from(y) - MARGIN / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{MARGIN:.1}\" y=\"{y:.1}\" fill=\"#555555\" font-size=\"11\" text-anchor=\"start\">{}</text>",
            escaped(line)
        );
    }
    out.push_str("</svg>\n");
    out
}

impl<'l> Layout<'l> {
    fn of(lifecycle: &'l Lifecycle, arrows: &[Arrow<'l>]) -> Self {
        let column = column(lifecycle, arrows);
        let at: BTreeMap<&str, usize> = column.iter().copied().zip(0..).collect();
        let ends: Vec<Option<(usize, Entry)>> = arrows
            .iter()
            .map(|arrow| {
                let (from, to) = (*at.get(arrow.from)?, *at.get(arrow.to)?);
                let entry = Entry {
                    state: to,
                    is_right: from <= to,
                    is_error: arrow.is_error,
                };
                Some((from, entry))
            })
            .collect();
        let rows = Rows::of(column.len(), &ends);
        let [texts_left, texts_right] = [false, true].map(|is_right| {
            let here = arrows.iter().zip(&ends).filter(|(_, end)| {
                let entry = end.as_ref().map(|(_, entry)| entry);
                entry.is_some_and(|entry| entry.is_right == is_right)
            });
            here.map(|(arrow, _)| breadth(&arrow.text, TEXT_CHARACTER))
                .fold(0.0, f64::max)
        });
        let names = column.iter().map(|name| breadth(name, NAME_CHARACTER));
        let names = names.fold(0.0, f64::max);
        let [tracks_left, tracks_right] = [false, true].map(|is_right| rows.tracks(is_right));
        let beside = |tracks: &BTreeMap<Entry, usize>, texts: f64| {
            let last = tracks.values().max();
            last.map_or(0.0, |last| {
                texts + 2.0 * GAP + (*last as f64 + 1.0) * BETWEEN_TRACKS
            })
        };
        let left = MARGIN + beside(&tracks_left, texts_left);
        let right = left + names + 2.0 * GAP;
        let width = right + beside(&tracks_right, texts_right) + MARGIN;
        let track = |entry: &Entry, number: usize| {
            let outwards = 2.0 * GAP + number as f64 * BETWEEN_TRACKS;
            match entry.is_right {
                true => right + texts_right + outwards,
                false => left - texts_left - outwards,
            }
        };
        let entries = tracks_left.iter().chain(&tracks_right);
        let entries = entries.filter_map(|(entry, number)| {
            let row = *rows.entries.get(entry)?;
            Some((*entry, (row, track(entry, *number))))
        });
        let exits = ends.iter().zip(&rows.exits);
        let exits = exits.map(|(end, row)| Some(((*end)?.1, *row))).collect();
        Self {
            column,
            height: rows.bottom + MARGIN,
            left,
            right,
            entries: entries.collect(),
            exits,
            width,
            places: rows.places,
        }
    }

    fn draw_arrow(&self, out: &mut String, arrow: &Arrow<'_>, entry: &Entry, leaves: f64) {
        let Some((enters, track)) = self.entries.get(entry).copied() else {
            return;
        };
        let colour = if arrow.is_error { "#c0392b" } else { "#555555" };
        let (side, outwards, anchor) = match entry.is_right {
            true => (self.right, 1.0, "start"),
            false => (self.left, -1.0, "end"),
        };
        let turn = CORNER.min((enters - leaves).abs() / 2.0);
        let down = if enters > leaves { turn } else { -turn };
        let before = track - outwards * turn;
        let _ = writeln!(
            out,
            "<path d=\"M{side:.1} {leaves:.1} H{before:.1} Q{track:.1} {leaves:.1} {track:.1} {:.1} V{:.1} Q{track:.1} {enters:.1} \
             {before:.1} {enters:.1} H{side:.1}\" fill=\"none\" stroke=\"{colour}\" marker-end=\"url(#:end)\"/><text x=\"{:.1}\" \
             y=\"{:.1}\" fill=\"{colour}\" font-size=\"11\" text-anchor=\"{anchor}\">{}</text>",
            leaves + down,
            enters - down,
            side + outwards * GAP,
            leaves - 3.5,
            escaped(&arrow.text)
        );
    }
}

/// The heights of everything.
struct Rows {
    places: Vec<Place>,
    entries: BTreeMap<Entry, f64>,
    /// Of each entry the highest and the lowest row of its arrows.
    spans: BTreeMap<Entry, (f64, f64)>,
    /// Of each arrow; 0 of one that is not drawn.
    exits: Vec<f64>,
    bottom: f64,
}

enum Row {
    Entry(Entry),
    /// The number of an arrow.
    Exit(usize),
}

impl Rows {
    /// `ends`: of each arrow the state that it leaves, and how it enters the other.
    fn of(n_states: usize, ends: &[Option<(usize, Entry)>]) -> Self {
        let mut rows = Self {
            places: Vec::with_capacity(n_states),
            entries: BTreeMap::new(),
            spans: BTreeMap::new(),
            exits: vec![0.0; ends.len()],
            bottom: MARGIN,
        };
        for state in 0..n_states {
            let sides = [false, true].map(|is_right| on_side(state, is_right, ends));
            let n_rows = sides.iter().map(Vec::len).max().unwrap_or_default();
            let height = HEIGHT.max((n_rows as f64 + 0.5) * ROW);
            let top = rows.bottom + if state == 0 { 0.0 } else { BETWEEN_STATES };
            for side in sides {
                let first = top + (height - (side.len() as f64 - 1.0) * ROW) / 2.0;
                for (number, row) in side.into_iter().enumerate() {
                    let y = first + number as f64 * ROW;
                    match row {
                        Row::Entry(entry) => _ = rows.entries.insert(entry, y),
                        Row::Exit(arrow) => {
                            if let Some(exit) = rows.exits.get_mut(arrow) {
                                *exit = y;
                            }
                        }
                    }
                }
            }
            rows.places.push(Place { top, height });
            rows.bottom = top + height;
        }
        for (end, exit) in ends.iter().zip(&rows.exits) {
            let Some((_, entry)) = end else {
                continue;
            };
            let enters = rows.entries.get(entry).copied().unwrap_or(*exit);
            let span = rows.spans.entry(*entry).or_insert((enters, enters));
            *span = (span.0.min(*exit), span.1.max(*exit));
        }
        rows
    }

    /// The numbers of the tracks on a side, short ones next to the boxes. On one track no two entries meet.
    fn tracks(&self, is_right: bool) -> BTreeMap<Entry, usize> {
        let here = self.spans.iter();
        let here = here.filter(|(entry, _)| entry.is_right == is_right);
        let mut here: Vec<_> = here.collect();
        here.sort_by(|(_, a), (_, b)| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let mut used: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut tracks = BTreeMap::new();
        for (entry, span) in here {
            let is_free = |spans: &Vec<(f64, f64)>| {
                let mut spans = spans.iter();
                spans.all(|of| span.1 + ROW / 2.0 < of.0 || of.1 + ROW / 2.0 < span.0)
            };
            let number = used.iter().position(is_free).unwrap_or(used.len());
            match used.get_mut(number) {
                Some(spans) => spans.push(*span),
                None => used.push(vec![*span]),
            }
            tracks.insert(*entry, number);
        }
        tracks
    }
}

/// The rows on a side of a state from top to bottom. On the right, what comes from above enters above what leaves downwards; on
/// the left, what comes from below enters below what leaves upwards.
fn on_side(state: usize, is_right: bool, ends: &[Option<(usize, Entry)>]) -> Vec<Row> {
    let exits = ends.iter().enumerate().filter_map(|(arrow, end)| {
        let (from, entry) = (*end)?;
        (from == state && entry.is_right == is_right).then_some(Row::Exit(arrow))
    });
    let entries = [false, true].map(|is_error| Entry {
        state,
        is_right,
        is_error,
    });
    let is_used = |entry: &Entry| ends.iter().flatten().any(|(_, of)| of == entry);
    let entries = entries.into_iter().filter(is_used).map(Row::Entry);
    match is_right {
        true => entries.chain(exits).collect(),
        false => exits.chain(entries).collect(),
    }
}

/// The states from top to bottom: those of a walk into the depth, in the reverse order of its ends, so that each stands above
/// those that its arrows lead to as far as they lead in no circle. Ways of errors are walked first and so end at the bottom.
/// States that nothing leads to come last.
fn column<'l>(lifecycle: &'l Lifecycle, arrows: &[Arrow<'l>]) -> Vec<&'l str> {
    let mut next: BTreeMap<&str, Vec<&'l str>> = BTreeMap::new();
    let (errors, others): (Vec<_>, Vec<_>) = arrows.iter().partition(|arrow| arrow.is_error);
    // The last one is walked first.
    for arrow in others.iter().chain(errors.iter().rev()) {
        next.entry(arrow.from).or_default().push(arrow.to);
    }
    let names = lifecycle.states.iter().map(|state| state.name.as_str());
    let known: Vec<&str> = names.collect();
    let beginnings = std::iter::once(lifecycle.initial_state.as_str()).chain(known.iter().copied());
    let (mut seen, mut column) = (Vec::new(), Vec::new());
    for begin in beginnings.filter(|name| known.contains(name)) {
        // Of each state on the way, where else it leads to.
        let mut way: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut ended = Vec::new();
        let mut found = (!seen.contains(&begin)).then_some(begin);
        loop {
            if let Some(name) = found.take() {
                seen.push(name);
                way.push((name, next.get(name).cloned().unwrap_or_default()));
            }
            let Some((name, others)) = way.last_mut() else {
                break;
            };
            match others.pop() {
                Some(other) => {
                    found = (known.contains(&other) && !seen.contains(&other)).then_some(other);
                }
                None => {
                    ended.push(*name);
                    way.pop();
                }
            }
        }
        column.extend(ended.into_iter().rev());
    }
    column
}

/// The width of a text, rather too much than too little: characters of other scripts may be as broad as the text is high.
fn breadth(text: &str, character: f64) -> f64 {
    let of = |one: char| {
        if one.is_ascii() {
            character
        } else {
            2.0 * character
        }
    };
    text.chars().map(of).sum()
}

/// A text of XML, which has no control characters, however they are written.
fn escaped(text: &str) -> String {
    text.replace(
        |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'),
        "\u{fffd}",
    )
    .replace('&', "&amp;")
    .replace('<', "&lt;")
    .replace('>', "&gt;")
    .replace('"', "&quot;")
}
