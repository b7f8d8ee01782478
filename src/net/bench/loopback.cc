#include "net/bench/loopback.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace kvern::net {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

UniqueFd connect_loopback(std::uint16_t port) {
  UniqueFd out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = loopback(port);
  if (connect(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) out.reset();
  return out;
}

std::uint16_t free_port() {
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto address = loopback(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(probe.get(), generic, size) != 0 || getsockname(probe.get(), generic, &size) != 0) return 0;
  return ntohs(address.sin_port);
}

Result<std::string> get_loopback(std::uint16_t port, const std::string& path) {
  const UniqueFd socket = connect_loopback(port);
  const std::string request = fmt::format("GET {} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n", path);
  std::string answer;
  char buffer[16U << 10U];
  if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
    for (ssize_t size = 0; (size = recv(socket.get(), buffer, sizeof buffer, 0)) > 0;) {
      answer.append(buffer, static_cast<std::size_t>(size));
    }
  }
  const std::size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) return fail(ErrorCode::kUnavailable, fmt::format("{} is not answered", path));
  return answer.substr(end + 4);
}

}  // namespace kvern::net
