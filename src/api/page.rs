//! The frame of pages for people: one style, for light and dark, for wide and narrow windows.

/// Colours are named once a scheme. A picture has colours for a light ground: on a dark one its boxes keep them, and lines and
/// texts beside the boxes are made light. In a narrow window it keeps its size, as its texts could not be read, and is scrolled.
const STYLE: &str = ":root{color-scheme:light dark;--ink:#1c2733;--ground:#fff;--line:#ccd3dc;--tint:#f3f5f8;--link:#0b57d0}\
    @media(prefers-color-scheme:dark){:root{--ink:#dde3ea;--ground:#14191f;--line:#3a4550;--tint:#212a33;--link:#8ab4f8}}\
    body{font-family:sans-serif;line-height:1.4;max-width:70rem;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--ground)}\
    a{color:var(--link)}table{border-collapse:collapse}\
    td,th{border:1px solid var(--line);padding:.25rem .5rem;text-align:left;vertical-align:top}\
    h1,h2,p,table:not(.calls) code{overflow-wrap:anywhere}code,pre{background:var(--tint)}pre{padding:.5rem;overflow:auto;max-height:30rem}\
    .picture{overflow-x:auto}.picture svg{max-width:100%;height:auto}\
    @media(prefers-color-scheme:dark){.picture [fill=\"#555555\"]{fill:#aab6c2}.picture [stroke=\"#555555\"]{stroke:#aab6c2}\
    .picture [fill=\"#c0392b\"]{fill:#ff8a7a}.picture [stroke=\"#c0392b\"]{stroke:#ff8a7a}}\
    h2{border-top:1px solid var(--line);padding-top:1rem}.verb{font-weight:bold;display:inline-block;min-width:4.5rem}\
    @media(max-width:45rem){body{margin:1rem auto}.picture svg{max-width:none}code{overflow-wrap:anywhere}.calls,.calls tbody,.calls tr,.calls td{display:block}.calls tr:first-child{display:none}.calls td:first-child{font-weight:bold}\
    .calls tr{border-top:1px solid var(--line);padding:.5rem 0}.calls td{border:0;padding:0}}\
    @media(max-width:30rem){td,th{overflow-wrap:anywhere}}";

/// A page. Both are HTML already: whoever calls this has escaped what comes from elsewhere.
pub(super) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n\
         <style>{STYLE}</style></head>\n<body><main><h1>{title}</h1>\n{body}</main></body></html>\n"
    )
}

/// A text as it stands in HTML, also within an attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_for_narrow_windows_and_dark_screens_too() {
        let page = page("A", "<p>b</p>\n");
        for part in [
            "name=\"viewport\"",
            "color-scheme:light dark",
            "@media(prefers-color-scheme:dark)",
            "@media(max-width:",
            ".picture svg{max-width:none}",
            // Long names and words stay on the page, and push nothing off it.
            "table:not(.calls) code{overflow-wrap:anywhere}",
            ".picture [stroke=\"#555555\"]",
            "<title>A</title>",
            "<main><h1>A</h1>\n<p>b</p>\n</main></body>",
            "@media(max-width:30rem){td,th{overflow-wrap:anywhere}}",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
