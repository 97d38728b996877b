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
#include <boost/asio/version.hpp>
#include <boost/asio/write.hpp>

namespace fak::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Of a loop's own context, and not of whatever executor, which would be asked at each operation.
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;

}  // namespace fak::net
