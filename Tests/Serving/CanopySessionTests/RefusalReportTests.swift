import CanopyWire
import Testing

struct RefusalReportTests {
  @Test(arguments: [nil, WireError(.notFound, "there is no post x")])
  func `a wrong refusal is reported with its request and as a whole`(_ error: WireError?) {
    withKnownIssue {
      expectRefusal(error, of: "a write", .rateLimited, "try again")
    } matching: { issue in
      let report = issue.comments.map(\.rawValue).joined()
      return report.contains("request: a write\n")
        && report.contains(error == nil ? "error:   none" : "there is no post x")
    }
  }

  @Test func `a right refusal is not reported`() {
    let error = WireError(.notFound, "there is no post x")
    expectRefusal(error, of: "a read", .notFound, "post x")
  }
}
