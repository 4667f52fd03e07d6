//! A DOM tree whose nodes are counted while it grows.
//!
//! A page of a megabyte can make its parser build a tree of billions of nodes, because unclosed elements are opened again in every
//! paragraph. So the parser gets a little input at a time, and the caller checks the count in between.

use std::borrow::Cow;
use std::cell::Cell;

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, ExpandedName, QualName};
use markup5ever_rcdom::{Handle, RcDom};

/// A tree and the number of its nodes.
#[derive(Default)]
pub(super) struct CountingDomSink {
    tree: RcDom,
    nodes: Cell<usize>,
}

impl CountingDomSink {
    /// Returns the number of nodes so far.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.get()
    }

    fn one_more(&self) {
        self.nodes.set(self.nodes.get().saturating_add(1));
    }
}

/// Delegates to the tree. Parse errors are ignored, and a `select` shows its options once.
impl TreeSink for CountingDomSink {
    type Output = RcDom;
    type Handle = Handle;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> RcDom {
        self.tree
    }

    fn parse_error(&self, _what: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.tree.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        self.tree.elem_name(target)
    }

    fn create_element(&self, name: QualName, attrs: Vec<Attribute>, flags: ElementFlags) -> Handle {
        self.one_more();
        self.tree.create_element(name, attrs, flags)
    }

    fn create_comment(&self, text: StrTendril) -> Handle {
        self.one_more();
        self.tree.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> Handle {
        self.one_more();
        self.tree.create_pi(target, data)
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.one_more();
        self.tree.append(parent, child);
    }

    fn append_based_on_parent_node(&self, element: &Handle, before: &Handle, child: NodeOrText<Handle>) {
        self.one_more();
        self.tree.append_based_on_parent_node(element, before, child);
    }

    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        self.tree.append_doctype_to_document(name, public, system);
    }

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.tree.get_template_contents(target)
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        self.tree.same_node(one, other)
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.tree.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &Handle, node: NodeOrText<Handle>) {
        self.one_more();
        self.tree.append_before_sibling(sibling, node);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attrs: Vec<Attribute>) {
        self.tree.add_attrs_if_missing(target, attrs);
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.tree.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &Handle, parent: &Handle) {
        self.tree.reparent_children(node, parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Handle) -> bool {
        self.tree.is_mathml_annotation_xml_integration_point(handle)
    }
}
