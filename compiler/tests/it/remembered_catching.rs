//! Calls of plugins that catch what says that an attribute has no value (yet), which are known from an earlier compile like others
//! as long as there is a value. Source: docs/reference/compile-contract.md § 1.

use crate::declarations::{Case, case};

const HEAD: &str = "from contextlib import contextmanager, suppress\nfrom inmanta.ast import OptionalValueException\n\
                    from inmanta.plugins import PluginException, plugin\nfrom inmanta.resources import PurgeableResource, resource\n";

/// What a compile prints that starts Python so often, the same as one that knows nothing.
#[track_caller]
fn printed(case: &Case, n_starts: usize) -> String {
    case.check(n_starts);
    case.run(true).0.printed
}

/// A site whose `late` comes after the call, if its text is that of another site.
fn late(value: &str) -> String {
    format!(
        "import m\nentity Site:\n    string name\n    string late\nend\nimplement Site using std::none\n\
         s = Site(name=\"s\", late={value})\n\
         std::print(m::shown(s))\nentity Other:\n    string text\nend\nOther.parts [0:] -- Part.other [1]\n\
         entity Part:\n    string name\nend\nimplement Part using std::none\nimplement Other using texts\n\
         implementation texts for Other:\n    self.text = m::joined([p.name for p in self.parts])\nend\n\
         o = Other()\nPart(name=\"x\", other=o)\n"
    )
}

const JOINED: &str =
    "@plugin\ndef joined(names: \"list\") -> \"string\":\n    return \"\".join(names)\n";

/// Given: a plugin that goes on where an attribute has no value yet, in several ways. Expected: while there is a value, Python is not
/// started again; where there is none, it is asked each time, and nobody waits in its place, though the value that comes is the known one.
#[test]
fn nobody_waits_where_a_plugin_would_go_on() {
    for body in [
        "    try:\n        return site.late\n    except Exception:\n        return \"none\"\n",
        "    with suppress(Exception):\n        return site.late\n    return \"none\"\n",
        "    found = \"none\"\n    try:\n        found = site.late\n    finally:\n        return found\n",
        "    return lost(site)\n\ndef lost(site):\n    try:\n        return site.late\n    except:\n        return \"none\"\n",
    ] {
        let code =
            format!("{HEAD}{JOINED}\n@plugin\ndef shown(site: \"any\") -> \"string\":\n{body}");
        let case = case(&late("\"x\""), &code);
        assert_eq!(printed(&case, 1), "x\n", "{body}");
        assert_eq!(printed(&case, 0), "x\n", "{body}");
        case.write("main.cf", &late("o.text"));
        for _ in 0..2 {
            assert_eq!(printed(&case, 1), "none\n", "{body}");
        }
        case.write("main.cf", &late("\"x\""));
        assert_eq!(printed(&case, 1), "x\n", "{body}");
        assert_eq!(printed(&case, 0), "x\n", "{body}");
    }
}

/// Given: a plugin that reads an optional relation and catches that it has no value. Expected: both are known.
#[test]
fn that_an_optional_relation_has_no_value_is_known() {
    let model = "import m\nentity Site:\n    string name\nend\nSite.owner [0:1] -- Owner.sites [0:]\nentity Owner:\n    string name\nend\n\
                 implement Site using std::none\nimplement Owner using std::none\ns = Site(name=\"s\")\nstd::print(m::owner(s))\n";
    let code = "@plugin\ndef owner(site: \"any\") -> \"string\":\n    try:\n        return site.owner.name\n    \
                except OptionalValueException:\n        return \"nobody\"\n";
    let case = case(model, &format!("{HEAD}{code}"));
    assert_eq!(printed(&case, 1), "nobody\n");
    assert_eq!(printed(&case, 0), "nobody\n");
    case.write("main.cf", &format!("{model}s.owner = Owner(name=\"o\")\n"));
    assert_eq!(printed(&case, 1), "o\n");
    assert_eq!(printed(&case, 0), "o\n");
    case.write("main.cf", model);
    assert_eq!(printed(&case, 1), "nobody\n");
}

/// Given: a plugin that shows what such an exception says. Expected: it is called each time, since that names the place of the instance.
#[test]
fn what_an_exception_says_of_the_model_comes_each_time() {
    let model = "import m\nentity Site:\n    string name\nend\nSite.owner [0:1] -- Site.sites [0:]\n\
                 implement Site using std::none\ns = Site(name=\"s\")\nstd::print(m::owner(s))\n";
    let code = "@plugin\ndef owner(site: \"any\") -> \"string\":\n    try:\n        return site.owner.name\n    \
                except OptionalValueException as error:\n        return str(error)\n";
    let case = case(model, &format!("{HEAD}{code}"));
    let first = printed(&case, 1);
    assert!(first.contains("main.cf:"), "{first}");
    case.write("main.cf", &format!("\n{model}"));
    assert_ne!(printed(&case, 1), first);
}

/// Given: plugins with contexts of their own, and getters that catch everything. Expected: all of it is known.
#[test]
fn contexts_and_getters_that_catch_are_known() {
    let model = "import m\nentity Site extends std::PurgeableResource:\n    string name\nend\nSite.owner [0:1] -- Site.sites [0:]\n\
                 implement Site using std::none\ns = Site(name=\"s\")\nstd::print(m::shown(s))\n";
    let code = "class Lines:\n    def __init__(self):\n        self.lines = []\n        self._depth = 0\n\n    \
                def __enter__(self):\n        self._depth += 1\n        return self\n\n    \
                def __exit__(self, *more):\n        self._depth -= 1\n\n    \
                @contextmanager\n    def block(self, name):\n        self.lines.append(name)\n        try:\n            \
                yield self\n        finally:\n            self.lines.append(\"end\")\n\n\
                @plugin\ndef shown(site: \"any\") -> \"string\":\n    lines = Lines()\n    with lines:\n        \
                with lines.block(\"site\") as block:\n            block.lines.append(site.name)\n    \
                return \" \".join(lines.lines)\n\n\
                @resource(\"__config__::Site\", agent=\"name\", id_attribute=\"name\")\nclass Site(PurgeableResource):\n    \
                fields = (\"name\", \"owner\")\n\n    @staticmethod\n    def get_owner(_, site):\n        try:\n            \
                return site.owner.name\n        except Exception:\n            return None\n";
    let case = case(model, &format!("{HEAD}{code}"));
    assert_eq!(printed(&case, 1), "site s end\n");
    assert_eq!(printed(&case, 0), "site s end\n");
}
