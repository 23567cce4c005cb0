//! Renders templates over the running model.

use super::Machine;
use super::calls::Site;
use crate::plugins::PluginError;
use crate::types::Value;

impl Machine<'_> {
    pub(super) fn render_template(
        &mut self,
        _site: Site,
        _path: &str,
        _variables: Option<Vec<(String, Value)>>,
    ) -> Result<Value, PluginError> {
        crate::plugins::external("NotImplementedError", "templates")
    }
}
