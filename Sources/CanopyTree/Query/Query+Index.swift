extension Query {
  /// Whether queries in this order of a location's children cost what their answer costs.
  public static func isIndexed(by order: Order, _ node: Node) -> Bool {
    var query = Query.all
    query.order = order
    return query.isIndexed(in: node)
  }
}
