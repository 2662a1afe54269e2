// swift-tools-version: 6.2
import PackageDescription

/// One list of settings for every target, so that no target is built more leniently than another.
let settings: [SwiftSetting] = [
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  // Tests count the nodes that an operation touches; release builds carry no counter.
  .define("CANOPY_COUNT_WORK", .when(configuration: .debug)),
]

/// The samples are compiled as an application's code is: without the features that this package asks more of
/// itself with.
let applicationSettings: [SwiftSetting] = [.treatAllWarnings(as: .error)]

/// The condition of the packages that the products need for the server alone. A package that depends on CanopyClient
/// without this trait does not fetch them.
let server = TargetDependencyCondition.when(traits: ["Server"])

/// The condition of the C library of PostgreSQL. Without this trait a build looks for neither its header nor itself.
let postgreSQL = TargetDependencyCondition.when(traits: ["PostgreSQL"])
let libpq = Target.Dependency.byName(name: "CLibpq", condition: postgreSQL)

let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")

let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let heap = Target.Dependency.product(name: "HeapModule", package: "swift-collections")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioEmbedded = Target.Dependency.product(name: "NIOEmbedded", package: "swift-nio")
let nioExtras = Target.Dependency.product(
  name: "NIOExtras", package: "swift-nio-extras", condition: server)
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let nioTLS = Target.Dependency.product(name: "NIOTLS", package: "swift-nio")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let nioHTTPTypes = Target.Dependency.product(name: "NIOHTTPTypes", package: "swift-nio-extras")
let nioHTTPTypesHTTP1 = Target.Dependency.product(
  name: "NIOHTTPTypesHTTP1", package: "swift-nio-extras")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let hummingbird = Target.Dependency.product(name: "HummingbirdCore", package: "hummingbird")
/// The router of Hummingbird, beside which the gateway is measured. Only a build for measurements needs it.
let hummingbirdRouter = Target.Dependency.product(
  name: "Hummingbird", package: "hummingbird", condition: .when(traits: ["HummingbirdBench"]))
let nioWebSocket = Target.Dependency.product(name: "NIOWebSocket", package: "swift-nio")
let lifecycle = Target.Dependency.product(
  name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: server)
let signals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")
let argumentParser = Target.Dependency.product(
  name: "ArgumentParser", package: "swift-argument-parser")
let histogram = Target.Dependency.product(name: "Histogram", package: "hdrhistogram-swift")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let sqlite = Target.Dependency.product(name: "GRDBSQLite", package: "GRDB.swift")
let metrics = Target.Dependency.product(
  name: "CoreMetrics", package: "swift-metrics", condition: server)
let jwt = Target.Dependency.product(
  name: "JWTKit", package: "jwt-kit", condition: server)

let package = Package(
  name: "canopy",
  // The first versions with the atomics and the mutex of the standard library.
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    // For applications and their tests; all else is used from within.
    .library(name: "CanopyClient", targets: ["CanopyClient"]),
    .library(name: "CanopyTesting", targets: ["CanopyTesting"]),
    .executable(name: "canopy-blog", targets: ["CanopyBlogSample"]),
  ],
  traits: [
    .default(enabledTraits: ["Server"]),
    .trait(
      name: "Server",
      description:
        "Fetch the packages of the server, which CanopyTesting needs and CanopyClient does not."),
    .trait(
      name: "HummingbirdBench",
      description:
        "Let CanopyBench compare with a route of Hummingbird, which takes long to build.",
      enabledTraits: ["Server"]),
    .trait(
      name: "PostgreSQL",
      description: "Build the store on PostgreSQL, which needs the library libpq.",
      enabledTraits: ["Server"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
    .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-extras", from: "1.35.2"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
  ],
  targets: [
    // Core: the tree database, and its protocol as text.
    .target(name: "CanopySystem", path: "Sources/Core/CanopySystem", swiftSettings: settings),
    .systemLibrary(name: "CPrefetch", path: "Sources/Core/CPrefetch"),
    .target(
      name: "CanopyTree", dependencies: ["CPrefetch", crypto], path: "Sources/Core/CanopyTree",
      swiftSettings: settings),
    .target(
      name: "CanopyRules", dependencies: ["CanopyTree"], path: "Sources/Core/CanopyRules",
      swiftSettings: settings),
    .target(
      name: "CanopyWire", dependencies: ["CanopyTree"], path: "Sources/Core/CanopyWire",
      swiftSettings: settings),
    .target(
      name: "CanopyRealtimeWire", dependencies: ["CanopyTree", "CanopyWire"],
      path: "Sources/Core/CanopyRealtimeWire", swiftSettings: settings),
    .target(
      name: "CanopyEngine", dependencies: ["CanopySystem", "CanopyTree", deque, heap, logging],
      path: "Sources/Core/CanopyEngine", swiftSettings: settings),

    // Blog: accounts, posts, comments and stars.
    .target(
      name: "CanopyAccounts", dependencies: ["CanopySystem", "CArgon2", crypto],
      path: "Sources/Blog/CanopyAccounts", swiftSettings: settings),
    .target(
      name: "CanopyIdentity",
      dependencies: [
        "CanopySystem", "CanopyTree", "CanopyRules", "CanopyAccounts", crypto, jwt,
      ],
      path: "Sources/Blog/CanopyIdentity", swiftSettings: settings),
    .target(
      name: "CanopySocial", dependencies: ["CanopyTree", "CanopyEngine"],
      path: "Sources/Blog/CanopySocial", swiftSettings: settings),

    // Storage: the journal and the accounts on disk, or in PostgreSQL.
    .target(
      name: "CanopyRows", dependencies: ["CanopySystem", "CanopyTree", "CanopyEngine"],
      path: "Sources/Storage/CanopyRows", swiftSettings: settings),
    .target(
      name: "CanopySQLite",
      dependencies: [
        "CanopySystem", "CanopyTree", "CanopyEngine", "CanopyAccounts", "CanopyRows", logging,
        grdb, sqlite,
      ],
      path: "Sources/Storage/CanopySQLite", swiftSettings: settings),
    .target(
      name: "CanopyBackup",
      dependencies: [
        "CanopySystem", "CanopyEngine", "CanopyWire", "CanopySQLite", crypto, logging,
      ],
      path: "Sources/Storage/CanopyBackup", swiftSettings: settings),
    // Empty without the trait PostgreSQL.
    .target(
      name: "CanopyPostgres",
      dependencies: [
        libpq, "CanopySystem", "CanopyTree", "CanopyEngine", "CanopyAccounts", "CanopyRows",
        logging,
      ],
      path: "Sources/Storage/CanopyPostgres", swiftSettings: settings),

    // Serving: connections, and the command.
    .target(
      name: "CanopyMetrics",
      dependencies: ["CanopyTree", "CanopyEngine", "CanopyWire", metrics],
      path: "Sources/Serving/CanopyMetrics", swiftSettings: settings),
    .target(
      name: "CanopySession",
      dependencies: [
        "CanopySystem", "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyAccounts",
        "CanopyIdentity", "CanopyMetrics", "CanopySocial", "CanopyWire", logging, deque, heap,
      ],
      path: "Sources/Serving/CanopySession", swiftSettings: settings),
    .target(
      name: "CanopyEvents",
      dependencies: [
        "CanopySystem", "CanopyTree", "CanopyEngine", "CanopyAccounts", "CanopyWire",
        "CanopyRealtimeWire", "CanopyMetrics", "CanopySession", logging, deque, nioCore, nioPosix,
        nioExtras, nioSSL, nioTLS,
      ],
      path: "Sources/Serving/CanopyEvents", swiftSettings: settings),
    .target(
      name: "CanopyLineServer",
      dependencies: [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyAccounts", "CanopySocial", "CanopyWire",
        "CanopyMetrics", "CanopySession", "CanopyEvents", logging, deque, nioCore, nioPosix,
        nioExtras, lifecycle,
      ],
      path: "Sources/Serving/CanopyLineServer", swiftSettings: settings),
    .target(
      name: "CanopyRealtime",
      dependencies: [
        "CanopyTree", "CanopyRules", "CanopyEngine", "CanopyWire", "CanopyRealtimeWire",
        "CanopyMetrics", "CanopySession", "CanopyEvents", "CanopyLineServer", logging, deque,
        nioCore, nioExtras,
        nioWebSocket,
      ],
      path: "Sources/Serving/CanopyRealtime", swiftSettings: settings),
    .target(
      name: "CanopyWeb", dependencies: [crypto],
      path: "Sources/Serving/CanopyWeb",
      // In the program itself, so that it stays one file.
      resources: [.embedInCode("Pages")], swiftSettings: settings),
    .target(
      name: "CanopyGateway",
      dependencies: [
        "CZlib", "CanopyWeb", "CanopyTree", "CanopyEngine", "CanopyWire", "CanopyIdentity",
        "CanopyMetrics",
        "CanopySession", "CanopyEvents", "CanopyRealtime", metrics, logging, deque, nioCore,
        nioPosix, nioExtras, nioHTTP1,
        nioHTTPTypes, nioHTTPTypesHTTP1, nioWebSocket, httpTypes, hummingbird, lifecycle,
      ],
      path: "Sources/Serving/CanopyGateway", swiftSettings: settings),
    .executableTarget(
      name: "canopy",
      dependencies: [
        "CanopyEvents", "CanopyGateway", "CanopyIdentity", "CanopyMetrics",
        "CanopySystem", "CanopyTree", "CanopyRules", "CanopyEngine", "CanopySQLite",
        "CanopyBackup", "CanopyPostgres", "CanopyAccounts", "CanopySocial", "CanopySession",
        "CanopyLineServer", "CanopyWire",
        logging, lifecycle,
        signals, argumentParser, nioCore, nioPosix,
      ],
      path: "Sources/Serving/canopy", swiftSettings: settings),

    // Client: for applications; knows Core only.
    .target(
      name: "CanopyClient",
      dependencies: [
        "CanopyTree", "CanopyWire", "CanopyRealtimeWire", logging, deque, nioCore, nioPosix,
        nioHTTP1, nioWebSocket, nioSSL, grdb,
      ],
      path: "Sources/Client/CanopyClient", swiftSettings: settings),
    .executableTarget(
      name: "CanopyBlogSample", dependencies: ["CanopyClient"],
      path: "Sources/Client/CanopyBlogSample", swiftSettings: settings),

    // Tools: tests, benchmarks, C libraries.
    .systemLibrary(
      name: "CArgon2", path: "Sources/Tools/CArgon2", providers: [.apt(["libargon2-dev"])]),
    .systemLibrary(
      name: "CZlib", path: "Sources/Tools/CZlib", providers: [.apt(["zlib1g-dev"])]),
    .systemLibrary(
      name: "CLibpq", path: "Sources/Tools/CLibpq", pkgConfig: "libpq",
      providers: [.apt(["libpq-dev"])]),
    .systemLibrary(name: "CEpoll", path: "Sources/Tools/CEpoll"),
    // For tests only.
    .target(name: "CFaultyDisk", dependencies: [sqlite], path: "Sources/Tools/CFaultyDisk"),
    .target(name: "CMallocCount", path: "Sources/Tools/CMallocCount"),
    .target(name: "CSimulation", path: "Sources/Tools/CSimulation"),
    .target(
      name: "CanopyTesting",
      dependencies: [
        "CanopySystem", "CanopyTree", "CanopyEngine", "CanopyAccounts", "CanopyIdentity",
        "CanopySocial", "CanopySession", "CanopyLineServer", logging, lifecycle, nioCore, nioPosix,
        nioSSL,
      ],
      path: "Sources/Tools/CanopyTesting", swiftSettings: settings),
    .executableTarget(
      name: "CanopyBench",
      dependencies: [
        "CEpoll", "CanopyTree", "CanopyClient", argumentParser, histogram, logging, httpTypes,
        nioCore,
        nioPosix, nioHTTP1, hummingbirdRouter,
      ],
      path: "Sources/Tools/CanopyBench", swiftSettings: settings),
    .executableTarget(
      name: "CanopyClientBench",
      dependencies: [
        "CanopyClient", "CanopyTree", argumentParser, logging, nioCore, nioPosix,
      ],
      path: "Sources/Tools/CanopyClientBench", swiftSettings: settings),

    // A main program only without libFuzzer, which has its own: see Scripts/fuzz-coverage.
    .executableTarget(
      name: "CanopyFuzz",
      dependencies: [
        "CanopyTree", "CanopyRules", "CanopyWire", "CanopyRealtimeWire", "CanopyEngine",
        "CanopyAccounts", "CanopyIdentity", "CanopySocial", "CanopyRows", "CanopySQLite",
        "CanopyBackup", "CanopySession", "CanopyRealtime", "CanopyGateway", "CanopyClient",
        "CanopyLineServer", "CanopyTesting", crypto, logging, nioCore, nioEmbedded, nioWebSocket,
        nioHTTPTypes, httpTypes,
      ],
      path: "Sources/Tools/CanopyFuzz", swiftSettings: settings),

    .executableTarget(
      name: "CanopySimulator",
      dependencies: [
        "CSimulation", "CanopyTree", "CanopyWire", "CanopyEngine", "CanopyAccounts", "CanopySocial",
        "CanopySession", "CanopyLineServer", "CanopyClient", "CanopyTesting", argumentParser,
        deque, logging, nioCore,
      ],
      path: "Sources/Tools/CanopySimulator", swiftSettings: settings),

    // Tests, in the same order.
    .testTarget(
      name: "CanopyEngineTests",
      dependencies: ["CanopyTree", "CanopyEngine", "CanopyTesting"],
      path: "Tests/Core/CanopyEngineTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyWireTests", dependencies: ["CanopyWire", "CanopyTree", "CanopyTesting"],
      path: "Tests/Core/CanopyWireTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyTreeTests", dependencies: ["CanopyTree", "CanopyTesting"],
      path: "Tests/Core/CanopyTreeTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyRulesTests",
      dependencies: ["CanopyRules", "CanopyTree", "CanopySocial", "CanopyTesting"],
      path: "Tests/Core/CanopyRulesTests", exclude: ["BuiltInCases.json"],
      swiftSettings: settings),
    .testTarget(
      name: "CanopySocialTests",
      dependencies: [
        "CMallocCount", "CanopyTree", "CanopyEngine", "CanopySQLite", "CanopySocial",
        "CanopyTesting",
      ],
      path: "Tests/Blog/CanopySocialTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyAccountsTests",
      dependencies: ["CanopyAccounts", "CanopySystem", "CanopyTesting", "CArgon2"],
      path: "Tests/Blog/CanopyAccountsTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyIdentityTests",
      dependencies: [
        "CanopyIdentity", "CanopyAccounts", "CanopyRules", "CanopySQLite", "CanopyTree",
        "CanopyTesting",
      ],
      path: "Tests/Blog/CanopyIdentityTests", swiftSettings: settings),
    .testTarget(
      name: "CanopySQLiteTests",
      dependencies: [
        "CanopyTree", "CanopyEngine", "CanopyRows", "CanopySQLite", "CanopyAccounts",
        "CanopySocial", "CanopyTesting", logging, grdb,
      ],
      path: "Tests/Storage/CanopySQLiteTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyBackupTests",
      dependencies: [
        "CanopyBackup", "CanopyTree", "CanopyEngine", "CanopySQLite", "CanopyAccounts",
        "CanopyWire", "CanopyTesting", logging, grdb,
      ],
      path: "Tests/Storage/CanopyBackupTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyPostgresTests",
      dependencies: [
        libpq, "CanopyTree", "CanopyEngine", "CanopyRows", "CanopyPostgres", "CanopyAccounts",
        "CanopySystem", "CanopyTesting", logging,
      ],
      path: "Tests/Storage/CanopyPostgresTests", swiftSettings: settings),
    .testTarget(
      name: "CanopySessionTests",
      dependencies: ["CanopySession", "CanopyTree", "CanopyWire", "CanopyEngine", "CanopyTesting"],
      path: "Tests/Serving/CanopySessionTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyLineServerTests",
      dependencies: [
        "CanopyLineServer", "CanopyEvents", "CanopySession", "CanopyTree", "CanopyRules",
        "CanopyEngine", "CanopyAccounts",
        "CanopySocial", "CanopyWire", "CanopyTesting", logging, lifecycle, nioCore, nioEmbedded,
        nioExtras, nioTLS,
      ],
      path: "Tests/Serving/CanopyLineServerTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyWebTests", dependencies: ["CanopyWeb", "CanopyTesting"],
      path: "Tests/Serving/CanopyWebTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyGatewayTests",
      dependencies: [
        "CanopyGateway", "CanopyWeb", "CZlib", "CanopyEvents", "CanopySession", "CanopyTree",
        "CanopyWire",
        "CanopyEngine", "CanopyAccounts", "CanopyIdentity", "CanopyMetrics", "CanopyRealtimeWire",
        "CanopyTesting",
        metrics, lifecycle, nioCore, nioExtras, nioPosix, nioEmbedded, nioHTTP1, nioHTTPTypes,
        nioSSL, nioTLS, httpTypes,
      ],
      path: "Tests/Serving/CanopyGatewayTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyRealtimeWireTests",
      dependencies: [
        "CanopyRealtimeWire", "CanopyTree", "CanopyWire", "CanopyEngine", "CanopyTesting",
      ],
      path: "Tests/Core/CanopyRealtimeWireTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyRealtimeTests",
      dependencies: [
        "CanopyRealtime", "CanopyRealtimeWire", "CanopyEvents", "CanopyLineServer", "CanopySession",
        "CanopyTree", "CanopyEngine", "CanopyWire", "CanopyTesting", logging, nioCore, nioPosix,
        nioEmbedded, nioHTTP1, nioWebSocket,
      ],
      path: "Tests/Serving/CanopyRealtimeTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyDiskTests",
      dependencies: [
        "canopy", "CFaultyDisk", "CanopySystem", "CanopyTree", "CanopyRules", "CanopyEngine",
        "CanopyAccounts", "CanopySocial", "CanopySQLite", "CanopyBackup", "CanopySession",
        "CanopyLineServer", "CanopyTesting",
        logging, lifecycle, grdb,
      ],
      path: "Tests/Serving/CanopyDiskTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyEndToEndTests",
      dependencies: [
        "canopy", "CanopyBackup", "CanopyEngine", "CanopyRows", "CanopySQLite", "CanopyTesting",
        "CanopyTree",
      ],
      path: "Tests/Serving/CanopyEndToEndTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyClientTests",
      dependencies: [
        "CanopyClient", "CanopyClientBench", "CanopyTree", "CanopyWire", "CanopyEngine",
        "CanopyAccounts", "CanopyEvents", "CanopyGateway", "CanopyIdentity", "CanopyLineServer",
        "CanopyRealtimeWire", "CanopySession", "CanopyTesting", logging,
        lifecycle, nioCore, nioPosix, nioEmbedded, nioWebSocket, grdb,
      ],
      path: "Tests/Client/CanopyClientTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyClientSampleTests",
      dependencies: [
        "CanopyClient", "CanopyClientBench", "CanopyEngine", "CanopySocial", "CanopyTesting",
        "CanopyTree", "canopy",
      ],
      path: "Tests/Client/CanopyClientSampleTests", swiftSettings: applicationSettings),
    // Runs the built command; depending on it has it built.
    .testTarget(
      name: "CanopyRepositoryTests", dependencies: ["canopy", "CanopyTesting"],
      path: "Tests/Tools/CanopyRepositoryTests", swiftSettings: settings),
    // Runs the built command. It must not be linked with it: CSimulation replaces functions of the C library.
    .testTarget(
      name: "CanopySimulatorTests", dependencies: ["CanopyTesting", "CanopyTree"],
      path: "Tests/Tools/CanopySimulatorTests", swiftSettings: settings),
    .testTarget(
      name: "CanopyFuzzTests", dependencies: ["CanopyFuzz", "CanopyTesting"],
      path: "Tests/Tools/CanopyFuzzTests", exclude: ["Corpus"], swiftSettings: settings),
    .testTarget(
      name: "CanopyBenchTests", dependencies: ["CanopyBench", "CanopyTree", "canopy"],
      path: "Tests/Tools/CanopyBenchTests", swiftSettings: settings),
  ],
  swiftLanguageModes: [.v6]
)
