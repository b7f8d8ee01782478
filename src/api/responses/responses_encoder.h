// What the encoders of Responses can do beyond encoding, for whoever stores responses: say how the response stands, and
// end it otherwise than the engine does.
#pragma once

#include <string>

#include "api/dialect.h"

namespace kvern::api {

class ResponsesEncoder : public Encoder {
 public:
  /// The response object as it stands.
  virtual void append_object(std::string& out) const = 0;
  /// The object as it would be after this failure.
  virtual void append_failed(const Error& error, std::string& out) const = 0;
  /// The end was added and has not left: `out` ends with it. Puts the failure in its place (nothing for a whole
  /// answer).
  virtual void withdraw(const Error& error, std::string& out) = 0;
  /// Ends the response as cancelled, like an End.
  virtual void cancel(std::string& out) = 0;
};

}  // namespace kvern::api
