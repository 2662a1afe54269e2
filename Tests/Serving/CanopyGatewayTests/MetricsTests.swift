import CanopyEngine
import CanopyMetrics
import CanopySession
import CanopyTesting
import CanopyTree
import CanopyWire
import CoreMetrics
import Synchronization
import Testing

@testable import CanopyGateway

/// The metrics of a server.
@Suite(.timeLimit(.minutes(20))) struct MetricsTests {
  @Test func `refused requests about accounts are counted by the reason, not by the status`()
    async throws
  {
    try await withGateway { server in
      try await server.connect { client in
        let base = "/identitytoolkit.googleapis.com/v1/accounts:"
        let account = #"{"email":"ada@example.org","password":"engine of 1843"}"#
        for (path, body, status) in [
          ("signUp?key=1", account, 200), ("signUp?key=1", account, 400),
          ("signInWithPassword?key=1", #"{"email":"ada@example.org","password":"wrong one"}"#, 400),
          ("signUp?key=1", #"{"email":"b@example.org","password":"x"}"#, 400),
          ("unknown?key=1", "{}", 404),
        ] {
          let response = try await client.request("POST", base + path, [:], body)
          #expect(response.status == status, "\(response.text)")
        }
        let text = try await client.request("GET", "/metrics").text
        for code in ["CONFLICT", "UNAUTHENTICATED", "INVALID_DATA", "NOT_FOUND"] {
          #expect(
            text.contains("canopy_errors_total{protocol=\"http\",code=\"\(code)\"} 1\n"), "\(code)")
        }
      }
    }
  }

  @Test func `the metrics count the requests of each protocol`() async throws {
    try await withGateway { server in
      try await server.connect { client in
        for _ in 0..<3 {
          try await client.expect("PUT", "/open/a.json", [:], "1", status: 200)
        }
        try await client.expect("GET", "/closed.json", status: 401)
        try await server.connect { line in
          #expect(try await line.upgrade("/line") == 101)
          for _ in 0..<100 {
            try await line.expect(line: "PING", "+\"PONG\"")
          }
          try await line.expect(line: "GET /closed", failsWith: "PERMISSION_DENIED")
          let metrics = try await client.request("GET", "/metrics")
          #expect(metrics.status == 200, "\(metrics)")
          #expect(metrics.fields["content-type"] == MetricsText.contentType, "\(metrics)")
          let lines = Set(metrics.text.split(separator: "\n").map(String.init))
          for expected in [
            #"canopy_http_requests_total{method="PUT",status="200"} 3"#,
            #"canopy_http_requests_total{method="GET",status="401"} 1"#,
            #"canopy_http_request_seconds_count{method="PUT"} 3"#,
            #"canopy_requests_total{protocol="line",verb="ping"} 100"#,
            #"canopy_request_seconds_count{protocol="line",verb="ping"} 2"#,
            #"canopy_errors_total{protocol="line",code="PERMISSION_DENIED"} 1"#,
            #"canopy_errors_total{protocol="http",code="PERMISSION_DENIED"} 1"#,
            "# HELP canopy_errors_total Rejected requests by protocol and code.",
          ] {
            #expect(lines.contains(expected), "\(expected)")
          }
          for line in lines where line.hasPrefix("# TYPE ") {
            let name = line.split(separator: " ")[2]
            #expect(
              lines.contains { $0.hasPrefix("# HELP \(name) ") }, "\(name) has no description")
          }
        }
        try await client.expect("POST", "/metrics", [:], "", status: 405)
        // A web page of another origin, in a browser on the server's machine.
        let page = try await client.request("GET", "/metrics", ["Origin": "http://evil.example"])
        #expect(page.status == 401 && !page.text.contains("canopy_"), "\(page)")
        // The request for an image on a page has no origin.
        for (site, status) in [
          ("cross-site", 401), ("same-site", 401), ("same-origin", 200), ("none", 200),
        ] {
          let image = try await client.request("GET", "/metrics", ["Sec-Fetch-Site": site])
          #expect(
            image.status == status && image.text.contains("canopy_") == (status == 200), "\(image)")
        }
        // A page whose own name resolves to this machine sends no origin.
        for (host, status) in [("evil.example", 401), ("127.0.0.1:9", 200), ("machine", 200)] {
          try await client.send("GET /metrics HTTP/1.1\r\nHost: \(host)\r\n\r\n")
          #expect(try await client.response().status == status, "\(host)")
        }
      }
    }
  }

  @Test func `samples of the same series are added, and the text is that of Prometheus`() {
    var text = MetricsText()
    for _ in 0..<2 { text.add(.counter, "a.b", "Help.", [("l", "x\"\\\n")], 2) }
    text.add(.gauge, "9", "", [], 0.5)
    text.add(histogram: "h", "", bounds: [1, 2], counts: [1, 2, 3], sum: 14)
    #expect(
      text.text == """
        # TYPE _9 gauge
        _9 0.5
        # HELP a_b Help.
        # TYPE a_b counter
        a_b{l="x\\"\\\\\\n"} 4
        # TYPE h histogram
        h_bucket{le="1"} 1
        h_bucket{le="2"} 3
        h_bucket{le="+Inf"} 6
        h_sum 14
        h_count 6

        """, "\(text)")
  }

  @Test func `the registry is a backend of swift-metrics`() {
    let registry = MetricsRegistry()
    for _ in 0..<2 {
      Counter(label: "c", dimensions: [("d", "1")], factory: registry).increment(by: 3)
    }
    Recorder(label: "r", factory: registry).record(3)
    Timer(label: "t", factory: registry).recordNanoseconds(200_000_000)
    Meter(label: "m", factory: registry).set(7)
    let lines = Set(registry.text.split(separator: "\n").map(String.init))
    for expected in [
      #"c{d="1"} 6"#, #"r_bucket{le="4"} 1"#, #"r_bucket{le="2"} 0"#, #"t_sum 0.2"#,
      #"t_bucket{le="0.25"} 1"#, "m 7",
    ] {
      #expect(lines.contains(expected), "\(expected)")
    }
  }

  @Test func `the first request after a pause is measured, besides one of many`() {
    let time = Mutex<Int64>(5_000_000_000)
    let registry = MetricsRegistry(roughNow: { time.withLock(\.self) })
    let metrics = RequestMetrics("line", in: registry)
    let verb = Request.connection(.quit).verb
    let pause = RequestMetrics.pauseNanoseconds
    func isMeasured(after nanoseconds: Int64) -> Bool {
      time.withLock { $0 += nanoseconds }
      return metrics.begin(verb).map(metrics.end) != nil
    }
    // The first is one of many, too.
    #expect(isMeasured(after: 0) && !isMeasured(after: 0))
    #expect(!isMeasured(after: pause) && isMeasured(after: pause + 1) && !isMeasured(after: 0))
    // A steady stream has no pause: only the 65th of all is measured.
    let measured = (6...129).filter { _ in isMeasured(after: pause) }
    #expect(measured == [65, 129])
    let lines = Set(registry.text.split(separator: "\n").map(String.init))
    let labels = #"{protocol="line",verb="quit"}"#
    #expect(
      lines.isSuperset(of: [
        "canopy_requests_total\(labels) 129", "canopy_request_seconds_count\(labels) 4",
      ]))
  }

  @Test func `a journal is measured without being changed`() async throws {
    let registry = MetricsRegistry()
    let journal = MeasuredJournal(FaultyJournal<InMemoryJournal>(), in: registry)
    let commit = Commit(
      sequence: 1, time: 1, assignments: [try Assignment(Location("a"), true)])
    try await journal.append([commit], after: 0)
    #expect(try await journal.load(keeping: IndexPlan()).sequence == 1)
    await #expect(throws: (any Error).self) { try await journal.append([commit], after: 5) }
    #expect(commit.textBytes >= "a".utf8.count + "true".utf8.count)
    let lines = Set(registry.text.split(separator: "\n").map(String.init))
    for expected in [
      "canopy_commits_total 1", "canopy_journal_bytes_total \(commit.textBytes)",
      "canopy_append_failures_total 1", "canopy_batch_commits_count 1",
      "canopy_append_seconds_count 1",
    ] {
      #expect(lines.contains(expected), "\(expected)")
    }
  }
}
