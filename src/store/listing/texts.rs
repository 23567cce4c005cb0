//! Texts one behind the other, in which a part of a text is found as fast as memory is read: a million of 30 letters are 30 MB,
//! which a search for a substring goes through in some milliseconds.

use std::ops::Range;

use memchr::memmem;

use crate::domain::Like;

/// What divides texts: no word that is searched for has it.
const END: char = '\0';

/// Bytes that are looked at first, and at most at once, when the last place of a word is looked for.
const FIRST_WINDOW: usize = 4096;
const LAST_WINDOW: usize = 1 << 20;

/// Texts one behind the other, with their beginnings, and the end of the last one.
#[derive(Debug)]
pub(in crate::store) struct Texts {
    bytes: String,
    starts: Vec<u64>,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            bytes: String::new(),
            starts: vec![0],
        }
    }
}

impl Texts {
    pub(in crate::store) fn push(&mut self, lower: &str) {
        self.bytes.push_str(lower);
        self.bytes.push(END);
        self.starts.push(self.bytes.len() as u64);
    }

    pub(in crate::store) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn start(&self, place: usize) -> usize {
        usize::try_from(self.starts[place]).unwrap_or(usize::MAX)
    }

    pub(in crate::store) fn get(&self, place: usize) -> &str {
        &self.bytes[self.start(place)..self.start(place + 1) - END.len_utf8()]
    }

    /// Which text has this byte.
    fn place_of(&self, byte: usize) -> usize {
        self.starts
            .partition_point(|start| *start <= byte as u64)
            .saturating_sub(1)
    }

    /// The first place of the range whose text has one of the words, or the last one.
    pub(in crate::store) fn find(
        &self,
        words: &mut [Word],
        places: &Range<usize>,
        is_last: bool,
    ) -> Option<usize> {
        if places.is_empty() {
            return None;
        }
        let (from, to) = (self.start(places.start), self.start(places.end));
        let found = words.iter_mut().filter_map(|word| {
            if is_last {
                word.last_before(self, from, to)
            } else {
                word.first_behind(self, from, to)
            }
        });
        let byte = if is_last { found.max() } else { found.min() };
        byte.map(|byte| self.place_of(byte))
    }

    /// Which of the texts have one of the words; no words: all.
    pub(in crate::store) fn with(&self, words: &[String]) -> Vec<bool> {
        let mut has = vec![words.is_empty(); self.len()];
        let mut words: Vec<Word> = words.iter().map(|word| Word::new(word)).collect();
        let mut places = 0..self.len();
        while let Some(place) = self.find(&mut words, &places, false) {
            has[place] = true;
            places.start = place + 1;
        }
        has
    }
}

/// A word that is looked for, and where it was found last, so that of several words each is looked for once.
#[derive(Debug)]
pub(in crate::store) struct Word {
    /// Finds the word, or of a pattern the longest text that is sure to be there.
    finder: memmem::Finder<'static>,
    /// What the whole text has to fit, if the word has wildcards.
    pattern: Option<Like>,
    /// Where it was found, and `None` for nowhere from there on; outer `None`: it was not looked for.
    known: Option<Option<usize>>,
}

impl Word {
    pub(in crate::store) fn new(word: &str) -> Self {
        // What divides texts is in none of them.
        let word = word.replace(END, "\u{fffd}");
        let pattern = (!Like::is_plain(&word)).then(|| Like::part(&word));
        let sure = match &pattern {
            None => word.to_lowercase(),
            Some(pattern) => pattern.longest_text(),
        };
        Self {
            finder: memmem::Finder::new(&sure).into_owned(),
            pattern,
            known: None,
        }
    }

    /// One that has no wildcards, whatever it is.
    pub(in crate::store) fn plain(word: &str) -> Self {
        let word = word.replace(END, "\u{fffd}").to_lowercase();
        Self {
            finder: memmem::Finder::new(&word).into_owned(),
            pattern: None,
            known: None,
        }
    }

    /// Whether the text with this byte fits, where more than the word counts.
    fn fits_at(&self, texts: &Texts, at: usize) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.fits_lower(texts.get(texts.place_of(at))))
    }

    /// The range only ever gets shorter, so what was found within it is still the next.
    fn first_behind(&mut self, texts: &Texts, from: usize, to: usize) -> Option<usize> {
        match self.known {
            Some(None) => None,
            Some(Some(at)) if at >= from => (at < to).then_some(at),
            _ => {
                let found = self.look_ahead(texts, from, to);
                self.known = Some(found);
                found
            }
        }
    }

    fn look_ahead(&self, texts: &Texts, mut from: usize, to: usize) -> Option<usize> {
        let bytes = texts.bytes.as_bytes();
        while from < to {
            let at = from + self.finder.find(&bytes[from..to])?;
            if at >= to || self.fits_at(texts, at) {
                return (at < to).then_some(at);
            }
            from = texts.start(texts.place_of(at) + 1);
        }
        None
    }

    fn last_before(&mut self, texts: &Texts, from: usize, to: usize) -> Option<usize> {
        match self.known {
            Some(None) => None,
            Some(Some(at)) if at < to => (at >= from).then_some(at),
            _ => {
                let (mut to, bytes) = (to, texts.bytes.as_bytes());
                let mut found = self.look_back(bytes, from, to);
                while let Some(at) = found.filter(|at| !self.fits_at(texts, *at)) {
                    to = texts.start(texts.place_of(at));
                    found = (to > from)
                        .then(|| self.look_back(bytes, from, to))
                        .flatten();
                }
                self.known = Some(found);
                found
            }
        }
    }

    /// Where it is last. To search backwards takes ten times as long as forwards, so windows are searched forwards, one before
    /// the other: small ones first, as it may be near.
    fn look_back(&self, text: &[u8], from: usize, to: usize) -> Option<usize> {
        let length = self.finder.needle().len();
        let (mut end, mut size) = (to, FIRST_WINDOW);
        while end > from {
            let start = end.saturating_sub(size).max(from);
            // What begins within the window may end behind it; the empty word is found behind the last text, too.
            let behind = (end + length).saturating_sub(1).min(to - END.len_utf8());
            let window = &text[start..behind.max(start)];
            // Those that overlap are in one text: it makes no difference which of them is the last.
            if let Some(at) = self.finder.find_iter(window).last() {
                return Some(start + at);
            }
            end = start;
            size = (size * 2).min(LAST_WINDOW);
        }
        None
    }

    pub(in crate::store) fn is_in(&self, text: &str) -> bool {
        match &self.pattern {
            None => self.finder.find(text.as_bytes()).is_some(),
            Some(pattern) => pattern.fits_lower(text),
        }
    }
}
