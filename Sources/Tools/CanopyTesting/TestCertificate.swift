internal import Foundation
public import NIOCore
internal import NIOSSL

/// A certificate for 127.0.0.1 and `localhost`, signed by itself, with its private key. For tests only.
public struct TestCertificate: Sendable {
  /// The certificate in PEM.
  public let certificate: String
  /// The private key in PEM.
  public let key: String

  /// Writes the certificate and a key into a folder, as a server reads them.
  ///
  /// - Parameter key: the key of another certificate; nil for the right one.
  /// - Returns: the paths of the two files.
  @discardableResult
  public func write(
    to folder: TemporaryFolder, key other: TestCertificate? = nil
  ) throws -> (certificateFile: String, keyFile: String) {
    let files = (certificateFile: folder.file("certificate.pem"), keyFile: folder.file("key.pem"))
    try certificate.write(toFile: files.certificateFile, atomically: true, encoding: .utf8)
    try (other ?? self).key.write(toFile: files.keyFile, atomically: true, encoding: .utf8)
    return files
  }

  /// Adds the handler of a client that trusts this certificate alone.
  public func addClientHandler(to channel: any Channel) throws {
    var configuration = TLSConfiguration.makeClientConfiguration()
    configuration.trustRoots = .certificates(
      try NIOSSLCertificate.fromPEMBytes(Array(certificate.utf8)))
    configuration.applicationProtocols = []
    let context = try NIOSSLContext(configuration: configuration)
    try channel.pipeline.syncOperations.addHandler(
      NIOSSLClientHandler(context: context, serverHostname: nil))
  }

  /// A certificate.
  public static let first = TestCertificate(
    certificate: """
      -----BEGIN CERTIFICATE-----
      MIIBozCCAUmgAwIBAgIUCIEXK2k1MIO0vk9bORyBIaklVowwCgYIKoZIzj0EAwIw
      GDEWMBQGA1UEAwwNY2Fub3B5IHRlc3QgMTAgFw0yNjExMjIxMzA2MzdaGA8yMTI2
      MTAyOTEzMDYzN1owGDEWMBQGA1UEAwwNY2Fub3B5IHRlc3QgMTBZMBMGByqGSM49
      AgEGCCqGSM49AwEHA0IABCSAb1z/7NWZ41EIKsZ8QcSoTGuh+lJklUt2Z00P0cGo
      yCCupOZtPvb+RRfCi85uMDfA9zLvylEv8gU70AqpNpCjbzBtMB0GA1UdDgQWBBRe
      aNbQa3X2YG8koWmxkVyZh9XssTAfBgNVHSMEGDAWgBReaNbQa3X2YG8koWmxkVyZ
      h9XssTAPBgNVHRMBAf8EBTADAQH/MBoGA1UdEQQTMBGHBH8AAAGCCWxvY2FsaG9z
      dDAKBggqhkjOPQQDAgNIADBFAiEAin7SeW+OOQI1ZtwGxSn2OwjOSeOj8b7fRG2Z
      XMwr1cQCIG4cbI8gbJkTlP2Anx3/Q+SH9zCN6xye/cjB8BXluBCF
      -----END CERTIFICATE-----
      """,
    key: """
      -----BEGIN PRIVATE KEY-----
      MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg+AJ2rowVB+XrVhpp
      u4xTri29e/5P0qAnCCEosf9BplahRANCAAQkgG9c/+zVmeNRCCrGfEHEqExrofpS
      ZJVLdmdND9HBqMggrqTmbT72/kUXwovObjA3wPcy78pRL/IFO9AKqTaQ
      -----END PRIVATE KEY-----
      """)

  /// Another certificate.
  public static let second = TestCertificate(
    certificate: """
      -----BEGIN CERTIFICATE-----
      MIIBpDCCAUmgAwIBAgIUYox3plwAW3J3eXrLDdMkuDWWR1cwCgYIKoZIzj0EAwIw
      GDEWMBQGA1UEAwwNY2Fub3B5IHRlc3QgMjAgFw0yNjExMjIxMzA2MzdaGA8yMTI2
      MTAyOTEzMDYzN1owGDEWMBQGA1UEAwwNY2Fub3B5IHRlc3QgMjBZMBMGByqGSM49
      AgEGCCqGSM49AwEHA0IABL4hSrAnj9afagkMejzFoZHUAxrVCkm/QHNBTzDwuZnk
      M2Ben0/M+TR6aAeI6aztaVDCmp6+EyXYPR93oWaYSc2jbzBtMB0GA1UdDgQWBBTY
      OA7N0e2B0bUsvnitJyXpLhnb0zAfBgNVHSMEGDAWgBTYOA7N0e2B0bUsvnitJyXp
      Lhnb0zAPBgNVHRMBAf8EBTADAQH/MBoGA1UdEQQTMBGHBH8AAAGCCWxvY2FsaG9z
      dDAKBggqhkjOPQQDAgNJADBGAiEAwrTOZptjpivV+9nS+dsWYJxwJ7ecQRWGGLqP
      pp6hOJYCIQCpbqc465cxVSg9+Ua15tWrbVDo3c9PBjOn5X9nZjJNGA==
      -----END CERTIFICATE-----
      """,
    key: """
      -----BEGIN PRIVATE KEY-----
      MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg6a5dr9JyV2vVxH8F
      77/J17tmS/Alv/Ls+rnsFgh+xCihRANCAAS+IUqwJ4/Wn2oJDHo8xaGR1AMa1QpJ
      v0BzQU8w8LmZ5DNgXp9PzPk0emgHiOms7WlQwpqevhMl2D0fd6FmmEnN
      -----END PRIVATE KEY-----
      """)
}
