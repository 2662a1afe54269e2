import CanopyTree
import Testing

@testable import CanopyClient

struct QuerySpecTests {
  @Test
  func `the server is asked once for all orders of a whole location, and for each narrow query`()
    throws
  {
    let path = try Path("posts")
    let byStars = QuerySpec(path, try Query(order: .child(try Path("starCount"))))
    #expect(byStars.asked == QuerySpec(path))
    let newest = QuerySpec(path, try Query(order: .key, limit: .last(2)))
    #expect(newest.asked == newest)
  }
}
