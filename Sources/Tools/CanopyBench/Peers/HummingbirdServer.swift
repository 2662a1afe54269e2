#if HummingbirdBench
  import ArgumentParser
  import Foundation
  import HTTPTypes
  import Hummingbird
  import Logging
  import NIOCore
  import NIOPosix

  /// The framework on which the gateway is built, with two bare routes, on as many event loops as Canopy has.
  struct HummingbirdServer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "hummingbird-server",
      abstract: "Answer GET of a post with a file, and PUT of a leaf with its own body.",
      shouldDisplay: false)

    @Argument var port: Int
    @Argument var file: String

    func run() async throws {
      let body = ByteBuffer(bytes: try Data(contentsOf: URL(fileURLWithPath: file)))
      let fields: HTTPFields = [.contentType: "application/json; charset=utf-8"]
      let router = Router()
      router.get("posts/:post") { _, _ in
        Hummingbird.Response(
          status: .ok, headers: fields, body: Hummingbird.ResponseBody(byteBuffer: body))
      }
      router.put("bench/:leaf") { request, _ in
        let body = try await request.body.collect(upTo: 1024)
        return Hummingbird.Response(
          status: .ok, headers: fields, body: Hummingbird.ResponseBody(byteBuffer: body))
      }
      var logger = Logger(label: "hummingbird")
      logger.logLevel = .error
      let application = Application(
        router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)),
        eventLoopGroupProvider: .shared(
          MultiThreadedEventLoopGroup(numberOfThreads: max(1, System.coreCount / 2))),
        logger: logger)
      try await application.runService()
    }
  }
#endif
