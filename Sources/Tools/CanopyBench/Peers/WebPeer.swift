import Foundation

/// A server of HTTP that answers with a file and knows no database.
final class WebPeer {
  let name: PeerName
  let port: Int
  private let process: ChildProcess
  private let folder: String

  var usage: Usage { Usage(processID: process.processID, hasChildren: name == .nginx) }

  /// - Parameters:
  ///   - file: the file for each GET.
  ///   - folder: a folder for the files of the server.
  init(_ name: PeerName, file: String, folder: String) throws {
    self.name = name
    self.folder = folder
    port = try freePort()
    let log = folder + "/\(name.rawValue).log"
    switch name {
    case .nginx:
      let configuration = folder + "/nginx.conf"
      try WebPeer.nginxConfiguration(port: port, file: file, folder: folder)
        .write(toFile: configuration, atomically: true, encoding: .utf8)
      process = try ChildProcess(
        "/usr/sbin/nginx", ["-c", configuration, "-p", folder, "-e", log], log: log,
        endedBy: SIGTERM)
    case .hummingbird:
      process = try ChildProcess(
        CommandLine.arguments[0], ["hummingbird-server", "\(port)", file], log: log,
        endedBy: SIGKILL)
    default:
      process = try ChildProcess(
        CommandLine.arguments[0], ["bare-http-server", "\(port)", file], log: log,
        endedBy: SIGKILL)
    }
    _ = try process.waitUntilReady { [port] in try TCPSocket(port: port) }
  }

  /// The servers of this build.
  static var all: [PeerName] {
    #if HummingbirdBench
      [.nginx, .hummingbird, .nio]
    #else
      [.nginx, .nio]
    #endif
  }

  /// Whether it answers a PUT with its body.
  var answersPut: Bool { name != .nginx }

  func stop() {
    process.stop(name == .nginx ? SIGTERM : SIGKILL)
  }

  /// Returns the configuration of nginx: as many workers as Canopy has event loops, and no log.
  private static func nginxConfiguration(port: Int, file: String, folder: String) -> String {
    """
    daemon off;
    user root;
    worker_processes \(max(1, ProcessInfo.processInfo.activeProcessorCount / 2));
    pid \(folder)/nginx.pid;
    events { worker_connections 1024; }
    http {
      access_log off;
      client_body_temp_path \(folder)/nginx-body;
      proxy_temp_path \(folder)/nginx-proxy;
      fastcgi_temp_path \(folder)/nginx-fastcgi;
      uwsgi_temp_path \(folder)/nginx-uwsgi;
      scgi_temp_path \(folder)/nginx-scgi;
      keepalive_timeout 3600s;
      keepalive_requests 1000000000;
      sendfile on;
      tcp_nopush on;
      open_file_cache max=16;
      types { application/json json; }
      server {
        listen 127.0.0.1:\(port);
        root \((file as NSString).deletingLastPathComponent);
      }
    }
    """
  }
}
