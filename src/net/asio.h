// What this room takes of Boost.Asio. Included before any other Boost header; never by a header
// that another room includes. Asio's own code is compiled once, in asio.cc.
#pragma once

#define BOOST_ASIO_NO_DEPRECATED
#define BOOST_ASIO_SEPARATE_COMPILATION

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

namespace fak::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

}  // namespace fak::net
