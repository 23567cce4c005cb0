//! Who takes the resources of an export.

use md5::{Digest, Md5};

use crate::{Export, Resource};

/// One resource of the desired state, as long as it is being exported: the fields of [`Resource`], borrowed.
#[derive(Debug, Clone, Copy)]
pub struct ResourceRef<'a> {
    /// See [`Resource::id`].
    pub id: &'a str,
    /// See [`Resource::entity_type`].
    pub entity_type: &'a str,
    /// See [`Resource::agent`].
    pub agent: &'a str,
    /// See [`Resource::id_attribute`].
    pub id_attribute: &'a str,
    /// See [`Resource::id_value`].
    pub id_value: &'a str,
    /// See [`Resource::attributes`].
    pub attributes: &'a str,
    /// See [`Resource::requires`].
    pub requires: &'a [&'a str],
    /// See [`Resource::undefined`].
    pub undefined: bool,
    /// See [`Resource::resource_set`].
    pub resource_set: Option<&'a str>,
}

impl ResourceRef<'_> {
    /// MD5 of the id and the attributes, 32 hexadecimal digits (docs/reference/language.md § 12.10). Computed when it
    /// is asked for: a file of resources has none.
    pub fn attribute_hash(&self) -> String {
        let mut hash = Md5::new();
        hash.update(self.id.as_bytes());
        hash.update(self.attributes.as_bytes());
        format!("{:x}", hash.finalize())
    }
}

/// Takes the resources one by one, in creation order of their instances, when nothing can go wrong any more. An export
/// of any size then needs no memory for their texts.
pub trait ResourceSink: Send {
    /// Takes the next resource, which is borrowed for the time of this call.
    fn take(&mut self, resource: ResourceRef<'_>);
}

impl ResourceSink for Export {
    fn take(&mut self, resource: ResourceRef<'_>) {
        self.resources.push(Resource {
            id: resource.id.to_owned(),
            entity_type: resource.entity_type.to_owned(),
            agent: resource.agent.to_owned(),
            id_attribute: resource.id_attribute.to_owned(),
            id_value: resource.id_value.to_owned(),
            attributes: resource.attributes.to_owned(),
            attribute_hash: resource.attribute_hash(),
            requires: resource
                .requires
                .iter()
                .map(|id| (*id).to_owned())
                .collect(),
            undefined: resource.undefined,
            resource_set: resource.resource_set.map(str::to_owned),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_id_and_the_attributes() {
        let resource = ResourceRef {
            id: "std::R[a,n=x]",
            entity_type: "std::R",
            agent: "a",
            id_attribute: "n",
            id_value: "x",
            attributes: r#"{"n": "x"}"#,
            requires: &[],
            undefined: false,
            resource_set: None,
        };
        assert_eq!(
            resource.attribute_hash(),
            "7234c8f8af00523c393a785509506bfc"
        );
    }
}
