/// A reference that does not keep its object alive.
///
/// It makes each strong reference to the object slower, so objects that each request uses have none.
package final class Weak<Object: AnyObject> {
  package private(set) weak var object: Object?

  package init(_ object: Object) {
    self.object = object
  }
}
