//! Calls that Python answers.

use super::Machine;
use super::calls::Site;
use crate::diagnostics::Fail;
use crate::export::Field;
use crate::plugins::{Bound, PluginError, external};
use crate::types::{InstId, Value};

impl Machine<'_> {
    pub(super) fn call_python(
        &mut self,
        _site: Site,
        _bound: &Bound,
    ) -> Result<Value, PluginError> {
        external("RuntimeError", "there is no Python host")
    }

    /// The values of fields that Python computes; `None`: the instance is not exported.
    pub fn map_fields(
        &mut self,
        _instance: InstId,
        _fields: &[&Field],
    ) -> Result<Option<Vec<(String, Value)>>, Fail> {
        Ok(None)
    }

    pub fn empty_list(&self) -> Value {
        self.empty_list
    }
}
