//! Lists of ids against a look at each id.

use super::*;
use crate::domain::Like;

const IDS: &[&str] = &[
    "",
    "no id at all",
    "a::B[Host-1,name=x]",
    "a::B[Host-1,name=xX]",
    "a::B[host-2,name=[x,y=z]]",
    "a::Bc[host-2,name=\u{c4}pfel]",
    "fs::File[host-1,path=/etc/Motd]",
    "fs::File[host-1,path=/etc/motd]",
    "fs::File[host-2,path=/etc/motd.d/\u{130}]",
    "fs::File[host-3,path=]",
];

fn names(ids: &[String]) -> Names {
    let mut making = Making::default();
    for id in ids {
        making.push(id);
    }
    making.finish()
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Every search of a few words, from every place, in both directions, in lists in which few and in which many fit.
#[test]
fn a_list_finds_what_a_look_at_each_id_finds() {
    let mut ids: Vec<String> = IDS.iter().map(|id| (*id).to_owned()).collect();
    ids.extend((0..200).map(|n| format!("a::B[Host-{n:03},name=x{n}]")));
    ids.sort_unstable();
    let names = names(&ids);
    let places = 0..names.len();
    let kept: Vec<String> = places.clone().map(|place| names.id(place)).collect();
    assert_eq!(kept, ids);
    for (place, id) in ids.iter().enumerate() {
        assert_eq!(names.place(id), place, "{id}");
        assert!(names.has(id) && !names.has(&format!("{id} ")), "{id}");
    }
    let words = [
        vec![],
        vec!["x"],
        vec!["MOTD", "\u{e4}PF"],
        vec!["nowhere", "\0"],
        vec![""],
        vec!["1"],
        vec!["host-1", "2"],
        vec!["%"],
        vec!["m_td", "x_1"],
        vec!["x%\\]", "_____________________"],
        vec!["h%1%", "/e%d"],
    ];
    let (mut n_found, mut n_searches) = (0, 0);
    for types in [vec![], vec!["FILE"], vec!["c", "a::b"]] {
        for agents in &words {
            for values in &words {
                let search = Search {
                    types: texts(&types),
                    agents: texts(agents),
                    values: texts(values),
                    statuses: None,
                };
                let fits = |id: &&String| {
                    let (resource_type, agent, _, value) = parts(id);
                    let has = |words: &[String], text: &str| {
                        let text = text.to_lowercase();
                        words.is_empty()
                            || words.iter().any(|word| {
                                let word = word.replace('\0', "\u{fffd}");
                                match Like::is_plain(&word) {
                                    true => text.contains(&word.to_lowercase()),
                                    false => Like::part(&word).fits(&text),
                                }
                            })
                    };
                    has(&search.types, resource_type)
                        && has(&search.agents, agent)
                        && has(&search.values, value)
                };
                for from in [0, 3, 100, ids.len()] {
                    for is_last in [false, true] {
                        let mut range = if is_last { 0..from } else { from..ids.len() };
                        let mut expected: Vec<&String> =
                            ids[range.clone()].iter().filter(fits).collect();
                        if is_last {
                            expected.reverse();
                        }
                        let mut wanted = names.wanted(&search);
                        // By twos, and then the rest.
                        let mut found = names.take(&mut wanted, &mut range, is_last, 2);
                        found.extend(names.take(&mut wanted, &mut range, is_last, 2));
                        found.extend(names.take(&mut wanted, &mut range, is_last, 1000));
                        let found: Vec<&str> = found.iter().map(ResourceId::as_str).collect();
                        assert_eq!(found, expected, "{search:?} {from} {is_last}");
                        n_found += found.len();
                        n_searches += 1;
                    }
                }
            }
        }
    }
    assert!(n_found > n_searches, "{n_found} {n_searches}");
}

#[test]
fn an_empty_list_has_nothing() {
    let names = names(&[]);
    let mut wanted = names.wanted(&Search {
        values: texts(&[""]),
        ..Search::default()
    });
    assert_eq!((names.len(), names.place("x")), (0, 0));
    for is_last in [false, true] {
        assert!(names.take(&mut wanted, &mut (0..0), is_last, 5).is_empty());
    }
}
