/* rabbitmq_library: the headers of librabbitmq, which have other names since its version 0.12 */
#ifndef PENSTOCK_SINK_RABBITMQ_LIBRARY_H
#define PENSTOCK_SINK_RABBITMQ_LIBRARY_H

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#include <rabbitmq-c/ssl_socket.h>
#include <rabbitmq-c/tcp_socket.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#endif

#endif
