//! References that Python makes and the compiler exports: of most of them it knows the arguments, and makes the exported form
//! itself. Source: docs/reference/language.md § 12.11.

use crate::declarations::case;

/// Ten resources with references in one another, beside texts and numbers of many forms. `OWN` is what a class adds.
const CODE: &str = "from inmanta.plugins import plugin\nfrom inmanta.references import Reference, reference\n\
                    from inmanta.resources import Resource, resource\n\n\n@reference(\"m::Vault\")\nclass Vault(Reference[str]):\n    \
                    def __init__(self, path: str | Reference[str], key: str | None, size: float, options: \"any\") -> None:\n        \
                    super().__init__()\n        self.path = path\n        self.key = key\n        self.size = size\n        \
                    self.options = options\n        self._hidden = key\n\n    \
                    def resolve(self, logger) -> str:\n        return \"x\"\nOWN\n\n@plugin\n\
                    def vault(path: str | Reference[str], number: int) -> Reference[str]:\n    \
                    inner = Vault(path, None, number / 7, True)\n    \
                    options = [inner, {\"a\": inner}] if number == 7 else inner if number > 4 else 2 ** 70 - number\n    \
                    return Vault(inner, f\"ké\\\"y {number}\", number * 1e20, options)\n\n\n\
                    @resource(\"__config__::Secret\", id_attribute=\"name\", agent=\"agent\")\nclass Secret(Resource):\n    \
                    fields = (\"name\", \"value\")\n";
const MODEL: &str = "import m\nentity Secret extends std::Resource:\n    string name\n    string agent = \"a\"\n    string value\nend\n\
                     implement Secret using std::none\nhome = std::create_environment_reference(\"HOME\")\n\
                     for i in std::sequence(5):\n    Secret(name=f\"text {i}\", value=m::vault(f\"path {i}\", i))\n    \
                     Secret(name=f\"home {i}\", value=m::vault(home, i + 5))\nend\n";
const ASKS: &str = "\n    def serialize(self):\n        return super().serialize()\n";

/// Given: references of a class whose exported form is that of its arguments, and of one that makes it itself, which is the
/// same. Expected: the same export.
#[test]
fn references_are_exported_as_python_would() {
    let exported = |own: &str| {
        let (seen, compiled) = case(MODEL, &CODE.replace("OWN", own)).run(false);
        assert!(compiled.succeeded(), "{:#?}", compiled.diagnostics);
        seen.export
    };
    let ours = exported("");
    assert_eq!(ours.matches("\"core::Replace\"").count(), 10, "{ours}");
    assert_eq!(ours, exported(ASKS));
}

/// Given: a reference that needs itself. Expected: the error that Python makes of it, not a compile without end.
#[test]
fn a_reference_that_needs_itself_is_no_endless_export() {
    let knot = "    knot = Vault(\"x\", \"y\", 1.5, 1)\n    knot.path = knot\n    return knot\n";
    let code = CODE.replace("OWN", "").replace(
        "    inner = Vault(path, None,",
        &format!("{knot}    inner = Vault(path, None,"),
    );
    let (_, compiled) = case(MODEL, &code).run(false);
    let text = format!("{:?}", compiled.diagnostics);
    assert!(text.contains("Reference cycle detected"), "{text}");
}
