//! Pictures of lifecycles can be read: nothing lies on a text, and no line goes through a box.

use serde_json::json;
use steward_lsm::people::svg;

use crate::model::lifecycles::{Random, lifecycle};
use crate::support::{entity, fixture, object};

/// Left, top, right and bottom.
type Area = [f64; 4];

fn meet(a: Area, b: Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// What stands between `begin` and `end` in a text.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let rest = text.split_once(begin).unwrap().1;
    rest.split_once(end).unwrap().0
}

fn number(element: &str, name: &str) -> f64 {
    between(element, &format!(" {name}=\""), "\"")
        .parse()
        .unwrap()
}

/// The boxes of a picture, the areas of its texts, and the straight parts of its arrows as flat areas.
#[derive(Default)]
struct Drawn {
    boxes: Vec<Area>,
    names: Vec<Area>,
    texts: Vec<Area>,
    lines: Vec<Vec<Area>>,
}

impl Drawn {
    fn of(picture: &str) -> Self {
        let mut drawn = Self::default();
        for line in picture.lines().filter(|line| line.contains("<text ")) {
            let (before, text) = line.split_once("<text ").unwrap();
            let text = format!(" {text}");
            let (x, y) = (number(&text, "x"), number(&text, "y"));
            // As wide as the letters of a common font are on average.
            let n_letters = between(&text, ">", "<").chars().count() as f64;
            if before.starts_with("<rect ") {
                let (left, top) = (number(before, "x"), number(before, "y"));
                let [width, height] = ["width", "height"].map(|name| number(before, name));
                drawn.boxes.push([left, top, left + width, top + height]);
                let half = n_letters * 7.5 / 2.0;
                drawn.names.push([x - half, y - 10.0, x + half, y + 3.0]);
            } else {
                let width = n_letters * 6.5;
                let left = if text.contains("anchor=\"end\"") {
                    x - width
                } else {
                    x
                };
                drawn.texts.push([left, y - 9.0, left + width, y + 2.5]);
                // A text without one is of the legend.
                if before.starts_with("<path ") {
                    let path = between(before, " d=\"", "\"");
                    drawn.lines.push(straight_parts(path));
                }
            }
        }
        drawn
    }
}

/// Of `M x y H x Q … x y V y Q … x y H x`.
fn straight_parts(path: &str) -> Vec<Area> {
    let numbers = |text: &str| -> Vec<f64> {
        let words = text.split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    };
    let (mut x, mut y) = (0.0, 0.0);
    let mut parts = Vec::new();
    let is_command = |letter: char| letter.is_ascii_uppercase();
    let begins: Vec<usize> = path
        .char_indices()
        .filter(|(_, letter)| is_command(*letter))
        .map(|(at, _)| at)
        .collect();
    for (number, begin) in begins.iter().enumerate() {
        let end = begins.get(number + 1).copied().unwrap_or(path.len());
        let given = numbers(&path[begin + 1..end]);
        let from = (x, y);
        match &path[*begin..=*begin] {
            "H" => x = given[0],
            "V" => y = given[0],
            _ => {
                x = given[given.len() - 2];
                y = given[given.len() - 1];
                continue;
            }
        }
        parts.push([from.0.min(x), from.1.min(y), from.0.max(x), from.1.max(y)]);
    }
    parts
}

/// A little broader, as a line is.
fn thick(line: Area) -> Area {
    [line[0] - 0.5, line[1] - 0.5, line[2] + 0.5, line[3] + 0.5]
}

fn check(name: &str, picture: &str) {
    let drawn = Drawn::of(picture);
    let view = between(picture, "viewBox=\"0 0 ", "\"");
    let (width, height) = view.split_once(' ').unwrap();
    let all: Area = [0.0, 0.0, width.parse().unwrap(), height.parse().unwrap()];
    let texts: Vec<Area> = drawn.texts.iter().chain(&drawn.names).copied().collect();
    for (at, text) in texts.iter().enumerate() {
        for other in &texts[at + 1..] {
            assert!(!meet(*text, *other), "{name}: two texts meet\n{picture}");
        }
        for line in drawn.lines.iter().flatten() {
            assert!(
                !meet(*text, thick(*line)),
                "{name}: a line goes through a text {text:?} {line:?}\n{picture}"
            );
        }
        let inside =
            text[0] >= all[0] && text[1] >= all[1] && text[2] <= all[2] && text[3] <= all[3];
        assert!(inside, "{name}: a text is cut off\n{picture}");
    }
    for (at, one) in drawn.boxes.iter().enumerate() {
        assert!(
            drawn.boxes[at + 1..]
                .iter()
                .all(|other| !meet(*one, *other)),
            "{name}: boxes meet"
        );
        assert!(
            drawn.texts.iter().all(|text| !meet(*one, *text)),
            "{name}: a text is on a box"
        );
        let inner = [one[0] + 1.0, one[1] + 1.0, one[2] - 1.0, one[3] - 1.0];
        let mut lines = drawn.lines.iter().flatten();
        assert!(
            lines.all(|line| !meet(inner, thick(*line))),
            "{name}: a line goes through a box\n{picture}"
        );
    }
    // Where two arrows have a part of a line in common, they end together: who follows one comes to where it leads.
    for (at, one) in drawn.lines.iter().enumerate() {
        for other in &drawn.lines[at + 1..] {
            let end = |line: &[Area]| {
                line.last()
                    .map(|part| part.map(|number| (number * 10.0) as i64))
            };
            let share = one.iter().any(|a| other.iter().any(|b| runs_along(*a, *b)));
            assert!(
                !share || end(one) == end(other),
                "{name}: two ways are one line\n{picture}"
            );
        }
    }
}

/// Whether two parts in the same direction lie on one another; that they cross does not matter.
fn runs_along(a: Area, b: Area) -> bool {
    let is_flat = |line: Area| line[1] == line[3];
    is_flat(a) == is_flat(b) && a[0] <= b[2] && b[0] <= a[2] && a[1] <= b[3] && b[1] <= a[3]
}

/// Given: the ready-made lifecycles, and random ones with names and arrows of all kinds. Expected: no text lies on another text, a
/// line or a foreign box, nothing is cut off, and no line goes through a box or along another one that ends elsewhere.
#[test]
fn nothing_lies_on_a_text_and_no_line_goes_through_a_box() {
    for (name, record) in object(fixture("lifecycles.json")) {
        let entity = entity(&json!({"name": name, "lifecycle": record}));
        check(&name, &svg(&entity.lifecycle, None));
    }
    for seed in 0..500 {
        let mut random = Random(seed);
        let mut record = lifecycle(&mut random);
        if random.percent(50) {
            let long = format!("a state with a long name {}", "x".repeat(random.below(60)));
            let text = record.to_string().replace("\"s1\"", &format!("{long:?}"));
            record = serde_json::from_str(&text).unwrap();
        }
        let entity = entity(&json!({"name": "s", "lifecycle": record}));
        let current = random.percent(50).then_some("s0");
        check(&seed.to_string(), &svg(&entity.lifecycle, current));
    }
}
