//! All ids of an environment as a few long texts, in which a part of a text is found as fast as memory is read.
//!
//! What may stand anywhere in a text no ordinary index finds, and the indexes that find it (of all groups of three letters)
//! take more room than what they index, cost each new resource more than the rest of its row, and know no words of two
//! letters. A million values of 30 letters are 30 MB, which a search for a substring goes through in some milliseconds. So
//! types, agents and values stand here one behind the other, in small letters; a resource is a place in the list of values,
//! and the number of what its id begins with. Places are in the order of the ids, so that a page is a few neighbours.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::Search;
use super::texts::{Texts, Word};
use crate::domain::ResourceId;

/// What an id begins with: `type[agent,attribute=`. An id of another shape is all value.
#[derive(Debug)]
struct Head {
    text: Box<str>,
    resource_type: u32,
    agent: u32,
    n_places: u32,
}

impl Head {
    /// Agent and attribute.
    fn inside(&self) -> Option<(&str, &str)> {
        let (_, rest) = self.text.split_once('[')?;
        let (agent, pair) = rest.split_once(',')?;
        Some((agent, pair.strip_suffix('=')?))
    }

    fn agent(&self) -> &str {
        self.inside().map_or("", |(agent, _)| agent)
    }

    fn attribute(&self) -> Option<&str> {
        self.inside().map(|(_, attribute)| attribute)
    }
}

/// Type, agent, head and value of an id.
fn parts(id: &str) -> (&str, &str, &str, &str) {
    let shaped = || {
        let (resource_type, rest) = id.strip_suffix(']')?.split_once('[')?;
        let (agent, pair) = rest.split_once(',')?;
        let (_, value) = pair.split_once('=')?;
        let head = &id[..id.len() - value.len() - 1];
        Some((resource_type, agent, head, value))
    };
    shaped().unwrap_or(("", "", "", id))
}

/// A part of an id, by which a list of resources may be sorted; resources with the same one are in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdPart {
    Agent,
    Value,
}

impl IdPart {
    /// The part of this id.
    pub fn of(self, id: &ResourceId) -> &str {
        let (_, agent, _, value) = parts(id.as_str());
        match self {
            Self::Agent => agent,
            Self::Value => value,
        }
    }
}

/// Texts, each once, and their numbers while the list is made.
#[derive(Debug, Default)]
struct Once {
    texts: Texts,
    numbers: HashMap<Box<str>, u32>,
}

impl Once {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(&text.to_lowercase());
        self.numbers.insert(text.into(), number);
        number
    }
}

/// A list that is being made.
#[derive(Debug, Default)]
pub(super) struct Making {
    types: Once,
    agents: Once,
    heads: HashMap<Box<str>, u32>,
    names: Names,
}

impl Making {
    /// Adds an id that is greater than all before it.
    pub(super) fn push(&mut self, id: &str) {
        let (resource_type, agent, head, value) = parts(id);
        let last = self.names.head_of.last().copied();
        let last = last.filter(|last| *self.names.heads[*last as usize].text == *head);
        let head = match last.or_else(|| self.heads.get(head).copied()) {
            Some(number) => number,
            None => {
                let number = self.names.heads.len() as u32;
                self.names.heads.push(Head {
                    text: head.into(),
                    resource_type: self.types.number(resource_type),
                    agent: self.agents.number(agent),
                    n_places: 0,
                });
                self.heads.insert(head.into(), number);
                number
            }
        };
        let names = &mut self.names;
        names.heads[head as usize].n_places += 1;
        let is_small = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
        if value.bytes().all(is_small) {
            names.values.push(value);
        } else {
            let place = names.head_of.len() as u32;
            names.written.insert(place, value.into());
            names.values.push(&value.to_lowercase());
        }
        names.head_of.push(head);
    }

    pub(super) fn finish(self) -> Names {
        Names {
            types: self.types.texts,
            agents: self.agents.texts,
            ..self.names
        }
    }
}

/// Ids in ascending order, and what they are searched by.
#[derive(Debug, Default)]
pub(super) struct Names {
    types: Texts,
    agents: Texts,
    heads: Vec<Head>,
    /// Of each place.
    head_of: Vec<u32>,
    values: Texts,
    /// Values that have other letters than small ones, by place.
    written: HashMap<u32, Box<str>>,
    /// All places in the order of the agents, and in that of the values, since somebody asked for it.
    by_agent: OnceLock<Vec<u32>>,
    by_value: OnceLock<Vec<u32>>,
}

/// A search of a list, prepared.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Of each head; `None`: any.
    heads: Option<Vec<bool>>,
    /// No head will do.
    is_nothing: bool,
    /// Whether values are best looked at one by one, since few have a head that will do.
    is_few: bool,
    values: Vec<Word>,
}

impl Names {
    pub(super) fn len(&self) -> usize {
        self.head_of.len()
    }

    fn head(&self, place: usize) -> &Head {
        &self.heads[self.head_of[place] as usize]
    }

    fn value(&self, place: usize) -> &str {
        match self.written.get(&(place as u32)) {
            Some(value) => value,
            None => self.values.get(place),
        }
    }

    pub(super) fn part(&self, place: usize, part: IdPart) -> &str {
        match part {
            IdPart::Agent => self.head(place).agent(),
            IdPart::Value => self.value(place),
        }
    }

    /// All places in the order of a part of their ids. The first call for a part takes a second for a million of them.
    pub(super) fn order(&self, part: IdPart) -> &[u32] {
        let order = match part {
            IdPart::Agent => &self.by_agent,
            IdPart::Value => &self.by_value,
        };
        order.get_or_init(|| {
            let mut places: Vec<u32> = (0..self.len() as u32).collect();
            // Places are in the order of the ids: what is equal stays as it is.
            match part {
                IdPart::Agent => {
                    let mut agents: Vec<&str> = self.heads.iter().map(Head::agent).collect();
                    agents.sort_unstable();
                    agents.dedup();
                    let rank = |head: &Head| agents.partition_point(|agent| *agent < head.agent());
                    let ranks: Vec<usize> = self.heads.iter().map(rank).collect();
                    places.sort_by_key(|place| ranks[self.head_of[*place as usize] as usize]);
                }
                IdPart::Value => {
                    let values = (0..self.len()).map(|place| self.value(place));
                    let values: Vec<&str> = values.collect();
                    places.sort_by_key(|place| values[*place as usize]);
                }
            }
            places
        })
    }

    /// Which of two places is first in the order of a part of their ids.
    pub(super) fn compare(&self, part: IdPart, a: u32, b: u32) -> Ordering {
        let text = |place: u32| self.part(place as usize, part);
        text(a).cmp(text(b)).then(a.cmp(&b))
    }

    pub(super) fn id(&self, place: usize) -> String {
        let head = &*self.head(place).text;
        let value = self.value(place);
        let end = if head.is_empty() { "" } else { "]" };
        [head, value, end].concat()
    }

    /// The first place whose id is not smaller.
    pub(super) fn place(&self, id: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if *self.id(middle) < *id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    pub(super) fn has(&self, id: &str) -> bool {
        let place = self.place(id);
        place < self.len() && self.id(place) == *id
    }

    pub(super) fn wanted(&self, search: &Search) -> Wanted {
        let values = search.values.iter().map(|word| Word::new(word)).collect();
        if search.types.is_empty() && search.agents.is_empty() {
            return Wanted {
                heads: None,
                is_nothing: false,
                is_few: false,
                values,
            };
        }
        let (types, agents) = (
            self.types.with(&search.types),
            self.agents.with(&search.agents),
        );
        let mut n_places = 0;
        let heads = self.heads.iter().map(|head| {
            let will_do = types[head.resource_type as usize] && agents[head.agent as usize];
            n_places += if will_do { head.n_places as usize } else { 0 };
            will_do
        });
        let heads = Some(heads.collect());
        Wanted {
            heads,
            is_nothing: n_places == 0,
            // To look at one value costs what it takes to go through some of them.
            is_few: n_places * 8 < self.len(),
            values,
        }
    }

    /// Whether the ids of all resources with these types and agents have this attribute in them.
    pub(super) fn all_say(&self, search: &Search, attribute: &str) -> bool {
        let wanted = self.wanted(search).heads;
        let mut heads = self.heads.iter().enumerate();
        heads.all(|(place, head)| {
            let will_do = wanted.as_ref().is_none_or(|wanted| wanted[place]);
            !will_do || head.attribute() == Some(attribute)
        })
    }

    /// Whether a place is wanted, whatever its neighbours are.
    pub(super) fn is_wanted(&self, wanted: &Wanted, place: usize) -> bool {
        let has_head = |heads: &Vec<bool>| heads[self.head_of[place] as usize];
        let is_in = || {
            let value = self.values.get(place);
            wanted.values.is_empty() || wanted.values.iter().any(|word| word.is_in(value))
        };
        !wanted.is_nothing && wanted.heads.as_ref().is_none_or(has_head) && is_in()
    }

    /// All places that are wanted, in the order of the ids; `None`: they are more than `n_most`.
    pub(super) fn all_wanted(&self, wanted: &mut Wanted, n_most: usize) -> Option<Vec<u32>> {
        let (mut found, mut places) = (Vec::new(), 0..self.len());
        while let Some(place) = self.next(wanted, &places, false) {
            if found.len() == n_most {
                return None;
            }
            found.push(place as u32);
            places.start = place + 1;
        }
        Some(found)
    }

    /// The next place of the range that is wanted: the first one, or the last.
    fn next(&self, wanted: &mut Wanted, places: &Range<usize>, is_last: bool) -> Option<usize> {
        if wanted.is_nothing {
            return None;
        }
        let by_value = !wanted.values.is_empty() && !wanted.is_few;
        let mut left = places.clone();
        while !left.is_empty() {
            let place = if by_value {
                self.values.find(&mut wanted.values, &left, is_last)?
            } else if is_last {
                left.end - 1
            } else {
                left.start
            };
            let head = self.head_of[place] as usize;
            let will_do = wanted.heads.as_ref().is_none_or(|heads| heads[head]);
            let words = &wanted.values;
            let is_in = || {
                by_value || words.is_empty() || {
                    let value = self.values.get(place);
                    words.iter().any(|word| word.is_in(value))
                }
            };
            if will_do && is_in() {
                return Some(place);
            }
            left = without(&left, place, is_last);
        }
        None
    }

    /// Takes so many ids that are wanted out of a range, the first ones or the last ones, in the order in which they come.
    pub(super) fn take(
        &self,
        wanted: &mut Wanted,
        places: &mut Range<usize>,
        is_last: bool,
        n_ids: usize,
    ) -> Vec<ResourceId> {
        let mut found = Vec::new();
        while found.len() < n_ids {
            let Some(place) = self.next(wanted, places, is_last) else {
                *places = 0..0;
                break;
            };
            found.push(ResourceId::new(self.id(place)));
            *places = without(places, place, is_last);
        }
        found
    }
}

/// The range behind a place, or before it.
fn without(places: &Range<usize>, place: usize, is_last: bool) -> Range<usize> {
    if is_last {
        places.start..place
    } else {
        place + 1..places.end
    }
}

#[cfg(test)]
mod tests;
