//! Templates: what is kept between calls. Source: std-module.md 7.

/// Sources of templates by path.
#[derive(Default)]
pub struct TemplateCache {
    pub sources: std::collections::HashMap<String, String>,
}
