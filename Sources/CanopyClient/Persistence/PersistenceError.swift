/// Why what survives a restart cannot be read or written. The description says what to do about it.
package struct PersistenceError: Error, CustomStringConvertible {
  package let description: String

  init(_ description: String) {
    self.description = description
  }
}
