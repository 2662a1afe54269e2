internal import CanopyIdentity
public import CanopyWire

/// The credentials that an emulator accepts, and that everybody knows.
extension Operations {
  /// The credential of the administrator of an emulator, as official Admin libraries send it.
  public static let emulatorOwner = "owner"

  /// Whether only an emulator accepts a credential: that of its administrator, or a token without a signature.
  public static func isOfEmulator(_ credential: String) -> Bool {
    credential == emulatorOwner || IdentityService.lacksSignature(credential)
  }

  /// The error for a web page of a foreign site that uses an emulator.
  public static let foreignPage = WireError(
    .unauthenticated,
    "pages of this origin may not use an emulator; allow it with --allow-origin")
}
